import type { IncomingHttpHeaders } from 'node:http';

/** Where SDKs say after how many seconds without an answer they give up. */
const headerNames = ['x-stainless-read-timeout', 'x-stainless-timeout'];
/** Kept back, so that our answer is there before the client has left and asks again. */
const marginShare = 0.1;
const mostMarginMs = 2_000;

/** How long a whole answer may take before its client gives up; undefined where the client does not say. */
export function clientPatienceMs(headers: IncomingHttpHeaders): number | undefined {
  const waits = headerNames.map((name) => Number(headers[name]) * 1000).filter((ms) => ms > 0 && Number.isFinite(ms));
  if (waits.length === 0) return undefined;
  const waitMs = Math.min(...waits);
  return waitMs - Math.min(mostMarginMs, waitMs * marginShare);
}
