import { Agent } from 'undici';

/** Big enough for a batch of embeddings written as decimals, small enough to survive a hostile upstream. */
const maxResponseBytes = 256 * 1024 * 1024;

/**
 * A connection pool for calls to models. Its own silence limits are off (five minutes by default, too short for a long
 * thought and too long for everything else): each call brings its own patience.
 */
export function createDispatcher(): Agent {
  return new Agent({
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: 10_000 },
    maxResponseSize: maxResponseBytes,
  });
}

/** All headers of a request, so that nothing about the client or this machine travels by accident. */
export function requestHeaders(apiKey: string): Readonly<Record<string, string>> {
  return {
    'content-type': 'application/json',
    // Compressed events would arrive late, and a small body could unpack into a large one.
    'accept-encoding': 'identity',
    'user-agent': 'orchestra',
    ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
  };
}
