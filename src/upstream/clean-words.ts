import { keepHead } from '../contract/code-points.ts';

const mostCodePoints = 2_000;

/** Words of an upstream as a client may read them: without links, and without what nobody outside may know. */
export function cleanWords(text: string | undefined, secrets: readonly string[]): string | undefined {
  if (text === undefined) return undefined;
  const withoutLinks = text.replace(/\bhttps?:\/\/\S+/gi, '[link]');
  const cleaned = secrets
    .filter((secret) => secret !== '')
    .reduce((words, secret) => words.replaceAll(secret, '[hidden]'), withoutLinks);
  return keepHead(cleaned, mostCodePoints);
}

/** Our key, and where the upstream is. */
export function secretsOf(url: string, apiKey: string): readonly string[] {
  const { host, hostname } = new URL(url);
  return [apiKey, host, hostname];
}
