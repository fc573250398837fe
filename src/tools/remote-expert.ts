import type { ChatUpstream } from '../upstream/chat.ts';
import type { Expert } from './expert.ts';

export interface RemoteExpertOptions {
  readonly upstream: ChatUpstream;
  /** The upstream's own name of the model. */
  readonly model: string;
  readonly firstTokenTimeoutMs?: number;
  readonly betweenTokensTimeoutMs?: number;
}

export function createRemoteExpert(options: RemoteExpertOptions): Expert {
  const { upstream, model, firstTokenTimeoutMs = 120_000, betweenTokensTimeoutMs = 30_000 } = options;
  const { cachesOnlyMarked = false } = upstream;
  return {
    cachesOnlyMarked,
    complete: ({ signal, callTime, ...request }) =>
      upstream.complete({ ...request, model }, { signal, callTime, firstTokenTimeoutMs, betweenTokensTimeoutMs }),
  };
}
