import { z } from 'zod';
import { servedContracts } from '../contract/schema.ts';
import { decimalToInteger } from '../cost/money.ts';
import { privacyClasses } from '../preferences/privacy.ts';
import { ceilingSchema, profileSchema } from '../preferences/schema.ts';

/** The one schema of `orchestra.yaml`; editors get it as docs/orchestra.schema.json. Unknown keys are errors. */

const name = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'use lower-case letters, digits, `-` and `_`');
/** What is finer cannot be counted in whole nano-dollars per million units, and is refused rather than rounded. */
const usd = (mostDigits: number) =>
  z
    .union([z.number().nonnegative(), z.string()])
    .refine((value) => isDecimal(value, mostDigits), {
      error: `write a decimal number of dollars with at most ${mostDigits} digits behind the point`,
    })
    .describe('USD, read exactly');
const perMillionTokens = () => usd(9).describe('USD per million tokens, read exactly').optional();

function isDecimal(value: string | number, mostDigits: number): boolean {
  try {
    return decimalToInteger(value, mostDigits) >= 0n;
  } catch {
    return false;
  }
}

const address = z.url({ protocol: /^https?$/, error: 'is an address such as `https://api.example.com/v1`' });
const privacy = z
  .enum(privacyClasses)
  .default('any')
  .describe('what this promises; no class is claimed on your behalf');
const regions = z.array(z.string().min(1)).default([]);
const folder = z.string().min(1);

export const priceSchema = z.strictObject({
  input: perMillionTokens(),
  output: perMillionTokens(),
  cache_read: perMillionTokens(),
  cache_write: perMillionTokens(),
  cache_write_1h: perMillionTokens().describe('of writes that are kept for an hour; left out: twice the input price'),
  reasoning: perMillionTokens(),
  per_call: usd(15).optional(),
  per_second: usd(12).describe('USD per second that a call takes, read exactly').optional(),
});

const keySchema = z
  .strictObject({
    name,
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/, 'is 64 lower-case hex digits')
      .optional(),
    env: z.string().optional().describe('variable that holds the secret, instead of its hash'),
    ceiling: ceilingSchema.default({}),
  })
  .refine((key) => (key.sha256 === undefined) !== (key.env === undefined), 'needs either `sha256` or `env`');

const serverSchema = z.strictObject({
  host: z.string().default('127.0.0.1').describe('any other address demands `auth` to be said in words'),
  port: z.int().min(0).max(65535).default(8080),
  auth: z.enum(['keys', 'none']).optional(),
  keys: z.array(keySchema).default([]),
  strict: z.boolean().default(false).describe('drop everything that OpenAI’s API does not have'),
});

/** Of models/downloads.json: what decides where the configuration names nothing. */
export const bundledModel = 'card-reader';

const policySchema = z.strictObject({
  backend: z
    .enum(['bundled', 'llama', 'remote', 'estimate'])
    .default('bundled')
    .describe('bundled: models/card-reader.md, and estimate until its base is here'),
  model: z
    .string()
    .optional()
    .describe('llama: an id of models/downloads.json or a path to a GGUF; remote: what the upstream calls it'),
  adapter: z.string().optional().describe('llama: path to a GGUF with a LoRA adapter for the model'),
  upstream: name.optional().describe('remote: the entry of `upstreams` that serves the model'),
  fallback: z.enum(['estimate', 'none']).default('estimate'),
  device: z.enum(['cpu', 'cuda']).optional().describe('left out: cuda where a GPU is visible, said at start'),
  context: z.int().min(512).optional(),
  contract: z
    .enum(servedContracts)
    .optional()
    .describe('what a model was trained on that models/downloads.json does not know; slots-1 when left out'),
  thought: z.int().min(0).optional().describe('most tokens of free thought before a choice'),
  threads: z.int().min(1).optional(),
  decision_ms: z
    .int()
    .min(1)
    .optional()
    .describe('beliefs-1: longest decision, and a quarter of the time left at most; then the fallback decides'),
  price: priceSchema.optional(),
});

const localModelSchema = z.strictObject({
  path: z.string().describe('an id of models/downloads.json or a path to a GGUF'),
  context: z.int().min(512).default(4096),
  sequences: z.int().min(1).max(64).default(1),
  temperature: z.number().min(0).max(2).default(0.7).describe('where a request says nothing, as are the next two'),
  top_p: z.number().gt(0).max(1).default(0.95),
  frequency_penalty: z.number().min(-2).max(2).default(0).describe('against repetition'),
  device: z.enum(['cpu', 'cuda']).optional(),
  threads: z.int().min(1).optional(),
});

const instruction = z.string().max(2000).optional();

const embeddingSchema = z.strictObject({
  path: z.string().describe('an id of models/downloads.json or a path to a GGUF'),
  context: z
    .int()
    .min(16)
    .max(32_768)
    .optional()
    .describe('most tokens of a text that are read; left out: what models/downloads.json says, else 512'),
  query: instruction.describe('what stood before queries in training, to the letter, such as `query: `'),
  document: instruction.describe('the same of documents, such as `passage: `'),
  threads: z.int().min(1).optional(),
});

const upstreamSchema = z
  .strictObject({
    kind: z
      .enum(['openai', 'responses', 'anthropic'])
      .describe('openai: any server with chat completions; responses: OpenAI’s other API; anthropic: Messages'),
    base_url: address.optional().describe('may be left out for anthropic'),
    api_key: z.string().default(''),
    privacy,
    regions,
    replay_reasoning: z
      .boolean()
      .optional()
      .describe('send an assistant’s reasoning_content back to it; left out: to DeepSeek’s and Moonshot’s hosts'),
  })
  .transform(({ base_url: written, ...upstream }, context) => {
    const base_url = written ?? (upstream.kind === 'anthropic' ? 'https://api.anthropic.com' : undefined);
    if (base_url !== undefined) return { ...upstream, base_url };
    context.addIssue({ code: 'custom', path: ['base_url'], message: 'is missing: the address of the server' });
    return z.NEVER;
  });

const toolSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('tavily'),
    api_key: z.string().min(1),
    base_url: address.optional(),
    privacy,
    price: priceSchema,
  }),
  z.strictObject({
    kind: z.literal('searxng'),
    base_url: address.describe('of your instance; its settings.yml must list `json` under search.formats'),
    privacy,
    price: priceSchema.optional(),
  }),
  z.strictObject({
    kind: z.literal('local_search'),
    folders: z.array(folder).min(1),
    data: z.boolean().default(false).describe('also JSON and CSV files, beside Markdown, text and HTML'),
    embedding: name.optional().describe('the entry of `embeddings` to find by; left out: the bundled one'),
    privacy,
    price: priceSchema.optional(),
  }),
  z.strictObject({
    kind: z.literal('sandbox'),
    backend: z
      .enum(['auto', 'bubblewrap', 'pyodide'])
      .default('auto')
      .describe('auto: bubblewrap and a Python of this machine, else Pyodide'),
    accept_weak_isolation: z
      .boolean()
      .default(false)
      .describe('run Pyodide even where the kernel gives it no namespaces: only its own seal holds the code then'),
    privacy: z.literal('local').default('local'),
    price: priceSchema.optional(),
  }),
]);

const slotBase = {
  quality: z.string().min(1).max(500).describe('one sentence: all that the policy reads about it'),
  skills: z.record(z.string(), z.number().min(0).max(1)).default({}),
  price: z.union([priceSchema, z.literal('unknown')], { error: 'is a price for each unit, or `unknown`' }).optional(),
  latency_ms: z.int().min(0).optional(),
  context: z.int().min(256).optional(),
  max_output: z.int().min(16).optional(),
  parallel: z.int().min(1).optional().describe('most calls at a time; one that waits 30 s goes to another slot'),
  output_tokens: z
    .int()
    .min(1)
    .optional()
    .describe('what it typically writes, for expectations of its price; 400 when left out'),
};
const expertFields = {
  upstream: name.optional(),
  model: z.string().optional(),
  local: name.optional().describe('a model of `models`, instead of upstream and model'),
  image_tokens: z.int().min(1).optional().describe('most that one picture is billed as; 50000 when left out'),
};

export const slotSchema = z.discriminatedUnion('role', [
  z.strictObject({
    role: z.literal('answer'),
    ...expertFields,
    ...slotBase,
    input: z.array(z.enum(['text', 'image', 'audio', 'file'])).default(['text']),
    tools: z.boolean().default(false),
    json_schema: z.boolean().default(false),
  }),
  z.strictObject({ role: z.literal('enhance_reasoning'), ...expertFields, ...slotBase, sandbox: name }),
  z.strictObject({
    role: z.literal('search'),
    ...slotBase,
    tools: z.array(name).min(1).describe('sources in the order in which they are asked'),
    writer: name.optional().describe('the slot whose expert writes the query'),
  }),
]);
export type SlotConfig = z.infer<typeof slotSchema>;

const slotId = z
  .string()
  .regex(/^[a-z]+(-[a-z0-9]+)*-\d+$/, 'is a role word and a number, such as `answer-1`: the policy sees it');

export const configSchema = z.strictObject({
  server: serverSchema.prefault({}),
  policy: policySchema.prefault({}),
  models: z.record(name, localModelSchema).default({}),
  embeddings: z.record(name, embeddingSchema).default({}).describe('sentence embeddings that run here'),
  upstreams: z.record(name, upstreamSchema).default({}),
  tools: z.record(name, toolSchema).default({}),
  slots: z.record(slotId, slotSchema).default({}),
  relay: z
    .array(z.string().regex(/^[^/]+\/([^*]+\*?|\*)$/, 'is UPSTREAM/MODEL, UPSTREAM/PREFIX* or UPSTREAM/*'))
    .default([]),
  profiles: z.record(name, profileSchema).default({}),
  defaults: profileSchema.default({}).describe('preferences that stand when a request says nothing'),
  ceiling: ceilingSchema.default({}).describe('of callers without a key of their own'),
  limits: z
    .strictObject({
      body_bytes: z.int().min(1024).default(67_108_864),
      runs: z.int().min(1).default(64),
      run_timeout_ms: z.int().min(1000).default(600_000),
      max_turns: z.int().min(1).max(50).default(8),
      sandbox_wall_ms: z.int().min(100).max(120_000).default(10_000),
    })
    .prefault({}),
  trace: z
    .strictObject({
      texts: z
        .enum(['off', 'on'])
        .default('off')
        .describe('keep requests and answers; those of private runs never are'),
      days: z.int().min(1).default(30),
    })
    .prefault({}),
  store: z.enum(['sqlite', 'memory']).default('sqlite'),
});

export type Config = z.infer<typeof configSchema>;
export type UpstreamConfig = Config['upstreams'][string];
export type ToolConfig = Config['tools'][string];
export type EmbeddingConfig = Config['embeddings'][string];
