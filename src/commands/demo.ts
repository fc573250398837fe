import type { AddressInfo } from 'node:net';
import OpenAI from 'openai';
import { z } from 'zod';
import { defaultConfig } from '../assembly/defaults.ts';
import { buildGateway } from '../assembly/gateway.ts';
import { settingsFrom } from '../assembly/settings.ts';
import { defaultModel, fetchDefaultModel } from './default-model.ts';
import type { ModelCommandContext } from './models.ts';

const question = 'According to the documentation of this project, how do I set a budget for one request?';

/** The part of `x_orchestra` that the demonstration prints. */
const report = z.object({
  policy: z.object({ name: z.string(), backend: z.string(), contract: z.string() }),
  status: z.string(),
  cost: z.object({
    total: z.number(),
    by_model: z.array(
      z.looseObject({ model: z.string(), input_tokens: z.number(), output_tokens: z.number(), cost: z.number() }),
    ),
  }),
  turns: z.array(
    z.object({
      turn: z.number(),
      role: z.string(),
      slot: z.string(),
      model: z.string(),
      outcome: z.string(),
      actual: z.object({ cost_usd: z.number().nullish(), latency_ms: z.number() }),
      candidates: z.array(z.looseObject({ role: z.string(), slot: z.string(), probability: z.number() })),
    }),
  ),
  warnings: z.array(z.object({ message: z.string() })),
});
type Report = z.infer<typeof report>;

/** One run through the served API in which a GGUF decides, printed turn by turn. */
export async function demo(context: ModelCommandContext): Promise<void> {
  const { environment } = context;
  const { home, modelsFolder } = settingsFrom(environment);
  await fetchDefaultModel(context);
  const { config } = defaultConfig(environment);
  const gateway = await buildGateway({
    config: {
      ...config,
      store: 'memory',
      policy: { ...config.policy, backend: 'llama', model: defaultModel, fallback: 'none' },
    },
    environment,
    home,
    modelsFolder,
  });
  try {
    await gateway.app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = gateway.app.server.address() as AddressInfo; // A TCP listener always has one.
    console.log(`${gateway.notes.map((note) => `· ${note}`).join('\n')}\n\nQuestion: ${question}\n`);
    await ask(`http://127.0.0.1:${port}/v1`);
  } finally {
    await gateway.close();
  }
}

async function ask(baseURL: string): Promise<void> {
  const client = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });
  const request = {
    model: 'orchestra',
    messages: [{ role: 'user' as const, content: question }],
    max_tokens: 120,
    preferences: { explain: 'full' },
  };
  const answer = await client.chat.completions.create(request);
  const { x_orchestra: told } = z.object({ x_orchestra: report }).parse(answer);
  printTurns(told);
  console.log(`Answer: ${answer.choices[0]?.message.content?.trim()}\n`);
  printCost(told);
}

function printTurns({ policy, turns }: Report): void {
  console.log(`Policy: ${policy.name} (${policy.backend}, contract ${policy.contract})\n`);
  for (const turn of turns) {
    console.log(
      `Turn ${turn.turn}: ${turn.role} with ${turn.slot} (${turn.model}): ${turn.outcome}, ${turn.actual.latency_ms} ms`,
    );
    for (const { role, slot, probability } of turn.candidates) {
      const bar = '█'.repeat(Math.round(probability * 20)).padEnd(20, '·');
      const chosen = slot === turn.slot ? '  ← chosen' : '';
      console.log(`  ${bar} ${(probability * 100).toFixed(1).padStart(5)} %  ${role} ${slot}${chosen}`);
    }
    console.log('');
  }
}

function printCost({ cost, status, warnings }: Report): void {
  console.log(`Status: ${status}. Cost: ${cost.total.toFixed(6)} USD`);
  for (const line of cost.by_model) {
    console.log(
      `  ${line.model}: ${line.input_tokens} tokens in, ${line.output_tokens} out, ${line.cost.toFixed(6)} USD`,
    );
  }
  for (const { message } of warnings) console.log(`  note: ${message}`);
}
