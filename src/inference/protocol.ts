import { z } from 'zod';
import { tokenLogprob } from '../contract/chat.ts';
import type {
  Adapter,
  EngineFailureKind,
  EngineOptions,
  GenerateRequest,
  JudgeRequest,
  ScoreRequest,
} from './engine.ts';

/** What gateway and host process say to each other. Requests are multiplexed by `id`. */

/** The descriptor on which the host finds its connection; it ends with the parent, and so does the host. */
export const hostDescriptor = 3;

export type RequestBody =
  | { readonly type: 'score'; readonly request: Omit<ScoreRequest, 'signal'> }
  | { readonly type: 'judge'; readonly request: Omit<JudgeRequest, 'signal'> }
  | { readonly type: 'generate'; readonly request: Omit<GenerateRequest, 'signal'> }
  | { readonly type: 'count'; readonly text: string }
  | { readonly type: 'adapt'; readonly adapter?: Adapter | undefined }
  | { readonly type: 'embed'; readonly text: string; readonly refuseLong: boolean }
  | { readonly type: 'rank'; readonly query: string; readonly texts: readonly string[] };

export type ToHost =
  | { readonly type: 'start'; readonly options: EngineOptions }
  | (RequestBody & { readonly id: number })
  | { readonly type: 'cancel'; readonly id: number }
  | { readonly type: 'ping' };

const failureKinds: readonly [EngineFailureKind, ...EngineFailureKind[]] = [
  'unavailable',
  'busy',
  'context_full',
  'invalid',
  'schema',
  'crashed',
];
const failure = z.object({ kind: z.enum([...failureKinds, 'cancelled']), message: z.string() });
export type WireFailure = z.infer<typeof failure>;

const count = z.int().nonnegative();
const id = count;
const usage = z.object({ promptTokens: count, cachedTokens: count, outputTokens: count });

const generateEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string(), logprobs: z.array(tokenLogprob).readonly().optional() }),
  z.object({
    type: z.literal('tool_call'),
    index: count,
    id: z.string().optional(),
    name: z.string().optional(),
    argumentsDelta: z.string(),
  }),
  z.object({ type: z.literal('end'), finishReason: z.enum(['stop', 'length', 'tool_calls']), usage }),
]);

const scoreResult = z.object({ logProbabilities: z.array(z.number()), thought: z.string(), usage });

const judgeResult = z.object({ logProbabilities: z.array(z.array(z.number())), usage });

const engineInfo = z.object({
  architecture: z.string(),
  device: z.string(),
  contextTokens: count,
  takesTools: z.boolean(),
  adapter: z.object({ path: z.string(), scale: z.number() }).optional(),
  weightsHash: z.string(),
});

const fromHost = z.discriminatedUnion('type', [
  z.object({ type: z.literal('ready'), info: engineInfo }),
  z.object({ type: z.literal('start-failed'), failure }),
  z.object({ type: z.literal('scored'), id, result: scoreResult }),
  z.object({ type: z.literal('judged'), id, result: judgeResult }),
  z.object({ type: z.literal('generated'), id, event: generateEvent }),
  z.object({ type: z.literal('counted'), id, tokens: count }),
  z.object({ type: z.literal('adapted'), id, info: engineInfo }),
  // 32-bit floats, little endian: in decimals they would be five times as long.
  z.object({ type: z.literal('embedded'), id, vector: z.base64(), tokens: count, isCut: z.boolean() }),
  z.object({ type: z.literal('ranked'), id, scores: z.array(z.number()) }),
  z.object({ type: z.literal('failed'), id, failure }),
  z.object({ type: z.literal('pong'), decodingForMs: z.number() }),
]);
export type FromHost = z.infer<typeof fromHost>;

/** One frame carries all that the host had to say in one turn of its event loop. */
export const hostFrame = z.array(fromHost);
