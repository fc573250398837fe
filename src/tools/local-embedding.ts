import { z } from 'zod';
import { usageOf } from '../cost/usage.ts';
import type { Embedded, Embedder } from '../inference/embedder.ts';
import { EngineFailure } from '../inference/engine.ts';
import { UpstreamFailure } from '../upstream/chat.ts';
import type { RelayRequest, RelayResponse } from '../upstream/relay.ts';
import { rejection } from './local-rejection.ts';

/** OpenAI's own limit. */
const mostTexts = 2_048;

const embeddingsBody = z.looseObject({
  input: z.union([z.string().transform((text) => [text]), z.array(z.string()).min(1).max(mostTexts)], {
    error: `is a text or a list of up to ${mostTexts} texts; tokens of another model mean nothing to this one`,
  }),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: z.int().nullish(),
  input_type: z.enum(['query', 'document']).nullish(),
});

/** A sentence embedding of this gateway in OpenAI's words; `input_type` is ours, for models with instructions. */
export async function embedLocally(
  embedder: Embedder,
  model: string,
  { body, signal }: RelayRequest,
): Promise<RelayResponse> {
  const { data, error } = embeddingsBody.safeParse(body);
  const [issue] = error?.issues ?? [];
  if (data === undefined) return refusal(`${issue?.path.join('.')}: ${issue?.message}.`);
  const { dimensions } = embedder.info;
  if (dimensions !== (data.dimensions ?? dimensions)) {
    return refusal(`dimensions: the vectors of this model have ${dimensions}.`);
  }
  const use = data.input_type ?? undefined;
  const all: Embedded[] = [];
  try {
    for (const text of data.input) all.push(await embedder.embed({ texts: [text], use, longTexts: 'refuse', signal }));
    return answer(all, model, data.encoding_format === 'base64');
  } catch (thrown) {
    if (!(thrown instanceof EngineFailure)) throw thrown;
    if (thrown.kind === 'context_full') {
      return refusal(`input.${all.length}: ${thrown.message}.`, 'context_length_exceeded');
    }
    throw new UpstreamFailure('server_error', 'The local model is not available.', { cause: thrown });
  }
}

const refusal = (problem: string, kind: 'rejected' | 'context_length_exceeded' = 'rejected') =>
  rejection(new UpstreamFailure(kind, problem));

function answer(embedded: readonly Embedded[], model: string, inBase64: boolean): RelayResponse {
  const vectors = embedded.flatMap((one) => one.vectors);
  const tokens = embedded.reduce((sum, one) => sum + one.tokens, 0);
  const data = vectors.map((vector, index) => ({
    object: 'embedding',
    index,
    embedding: inBase64 ? Buffer.from(vector.buffer).toString('base64') : [...vector],
  }));
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  const body = { object: 'list', data, model, usage };
  return { kind: 'answer', headers: {}, body, usage: usageOf({ inputTokens: tokens, calls: 1 }) };
}
