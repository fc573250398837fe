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
