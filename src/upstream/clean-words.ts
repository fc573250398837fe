const mostCodePoints = 2_000;

/** Words of an upstream as a client may read them: without links, and without what nobody outside may know. */
export function cleanWords(text: string | undefined, secrets: readonly string[]): string | undefined {
  const withoutLinks = text?.replace(/\bhttps?:\/\/\S+/gi, '[link]');
  return secrets
    .filter((secret) => secret !== '')
    .reduce((cleaned, secret) => cleaned?.replaceAll(secret, '[hidden]'), withoutLinks)
    ?.slice(0, mostCodePoints);
}

/** Our key, and where the upstream is. */
export function secretsOf(url: string, apiKey: string): readonly string[] {
  const { host, hostname } = new URL(url);
  return [apiKey, host, hostname];
}
