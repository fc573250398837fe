/** Paths that live beside the API, not under `/v1`. */
const outside = /^\/(?:$|docs(?:\/|$)|healthz?$|readyz$)/;

/**
 * Base URLs are typed by hand, so every route answers with and without `/v1`, with it doubled, with doubled slashes
 * and with a slash at the end.
 */
export function canonicalUrl(url: string): string {
  const end = url.indexOf('?');
  const path = end < 0 ? url : url.slice(0, end);
  const query = end < 0 ? '' : url.slice(end);
  const single = path.replace(/\/{2,}/g, '/').replace(/(.)\/$/, '$1');
  const bare = single.replace(/^(?:\/v1)+(?=\/|$)/, '') || '/';
  return (outside.test(bare) ? bare : `/v1${bare}`) + query;
}
