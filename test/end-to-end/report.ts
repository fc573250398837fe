import type OpenAI from 'openai';
import { z } from 'zod';

const candidate = z.looseObject({
  role: z.string(),
  slot: z.string(),
  probability: z.number(),
  p_right: z.number().optional(),
  predicted: z.object({ cost_usd: z.number().nullable(), latency_ms: z.number() }),
});
const warnings = z.array(z.object({ code: z.string(), message: z.string() }));

const report = z.looseObject({
  run_id: z.string(),
  status: z.string(),
  policy: z.looseObject({ name: z.string(), backend: z.string() }),
  model: z.string().nullable(),
  limits_applied: z.array(z.looseObject({ limit: z.string(), removed: z.array(z.looseObject({ slot: z.string() })) })),
  cost: z.looseObject({
    total: z.number().nullable(),
    estimated: z.boolean(),
    by_model: z.array(
      z.looseObject({ model: z.string(), calls: z.number(), input_tokens: z.number(), output_tokens: z.number() }),
    ),
    by_tool: z.array(z.looseObject({ tool: z.string(), calls: z.number(), duration_ms: z.number() })),
  }),
  turns: z
    .array(
      z.looseObject({
        turn: z.number(),
        role: z.string(),
        slot: z.string(),
        probability: z.number(),
        decided_by: z.string(),
        outcome: z.string(),
        candidates: z.array(candidate).optional(),
        ruled_out: z.array(z.object({ slot: z.string(), reason: z.string() })).optional(),
      }),
    )
    .default([]),
  warnings,
});
export type Report = z.infer<typeof report>;

const decision = z.looseObject({ role: z.string(), slot: z.string(), candidates: z.array(candidate), warnings });
export type Decision = z.infer<typeof decision>;

/** What the gateway adds to an answer or to a chunk, read as strictly as the tests need it. */
export const reportOf = (answer: object): Report => z.object({ x_orchestra: report }).parse(answer).x_orchestra;

/** The cost that OpenAI's types do not know. */
export const costOf = (answer: object): number =>
  z.object({ usage: z.object({ cost: z.number() }) }).parse(answer).usage.cost;

/** The whole record of a run, as its own endpoint tells it. */
export const recordOf = async (client: OpenAI, runId: string): Promise<Report> =>
  report.parse(await client.get(`/orchestra/runs/${runId}`));

/** What the first turn would choose. */
export const decide = async (client: OpenAI, body: Readonly<Record<string, unknown>>): Promise<Decision> =>
  decision.parse(await client.post('/orchestra/decide', { body }));

export const sumOf = (candidates: readonly { readonly probability: number }[]): number =>
  candidates.reduce((sum, { probability }) => sum + probability, 0);
