import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { privacyClasses } from '../preferences/privacy.ts';
import { type Config, priceSchema } from './config.ts';
import { parseConfig } from './load-config.ts';
import type { Environment } from './settings.ts';

/** models/slots.json: what a key in the environment switches on when there is no configuration file. */
const knownSlotsSchema = z.strictObject({
  about: z.string(),
  upstreams: z.record(
    z.string(),
    z.strictObject({
      kind: z.enum(['openai', 'responses', 'anthropic']),
      variable: z.string(),
      base_url: z.url(),
      privacy: z.enum(privacyClasses),
      regions: z.array(z.string()),
    }),
  ),
  tools: z.record(
    z.string(),
    z.strictObject({ variable: z.string(), privacy: z.enum(privacyClasses), price: priceSchema }),
  ),
  slots: z.array(z.looseObject({ id: z.string(), role: z.string(), upstream: z.string(), model: z.string() })),
});
type KnownSlots = z.infer<typeof knownSlotsSchema>;

/** Something that could be switched on, and how. */
export interface DisabledChoice {
  readonly name: string;
  readonly variable: string;
}

export interface DefaultConfig {
  readonly config: Config;
  readonly disabled: readonly DisabledChoice[];
}

const mostSlotsPerRole = 5;
const repository = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** The configuration without a file: local slots always, cloud slots where their key is set, a small budget for all. */
export function defaultConfig(environment: Environment): DefaultConfig {
  const known = knownSlotsSchema.parse(JSON.parse(readFileSync(repository('models/slots.json'), 'utf8')));
  const isSet = (variable: string) => (environment[variable] ?? '') !== '';
  const upstreams = Object.entries(known.upstreams).filter(([, { variable }]) => isSet(variable));
  const tools = Object.entries(known.tools).filter(([, { variable }]) => isSet(variable));
  const cloud = cloudSlots(known, new Set(upstreams.map(([id]) => id)));
  const answers = Object.keys(cloud).filter((id) => id.startsWith('answer-'));
  // The query for a web search is written by the last answer slot of the table that is on: never the dearest.
  const writer = answers.at(-1);
  const config = parseConfig(
    {
      server: serverSection(environment),
      ceiling,
      models: { smol },
      upstreams: Object.fromEntries(
        upstreams.map(([id, { variable, ...rest }]) => [id, { api_key: `\${${variable}}`, ...rest }]),
      ),
      tools: {
        docs: { kind: 'local_search', folders: [repository('docs')], privacy: 'any' },
        python: { kind: 'sandbox' },
        ...Object.fromEntries(
          tools.map(([id, { variable, ...rest }]) => [id, { kind: id, api_key: `\${${variable}}`, ...rest }]),
        ),
      },
      slots: {
        'search-1': {
          role: 'search',
          tools: ['docs', ...tools.map(([id]) => id)],
          quality: tools.length > 0 ? 'documents of this project, then the web' : 'documents of this project',
          latency_ms: tools.length > 0 ? 1500 : 50,
          ...(tools.length > 0 && writer !== undefined ? { writer } : {}),
        },
        ...cloud,
        'reasoner-9': {
          role: 'enhance_reasoning',
          local: 'smol',
          sandbox: 'python',
          quality: 'very small local model, weak at python',
          latency_ms: 8000,
          max_output: smolOutputTokens,
        },
        'answer-9': {
          role: 'answer',
          local: 'smol',
          quality: 'very small local model: greetings, short rewrites',
          latency_ms: 3000,
          max_output: smolOutputTokens,
        },
      },
      relay: upstreams.flatMap(([id, { kind }]) => (kind === 'openai' ? [`${id}/*`] : [])),
    },
    environment,
  );
  return { config, disabled: disabledChoices(known, isSet) };
}

/** Its makers' advice for sampling: hotter, so small a model loses its thread. It also turns in circles where it may. */
const smol = {
  path: 'smollm2-135m-instruct',
  context: 4096,
  temperature: 0.2,
  top_p: 0.9,
  frequency_penalty: 0.3,
};
/** What it has not said by then it will not say. */
const smolOutputTokens = 256;

/** Somebody who spends money without having said how much must not be able to spend much. */
const ceiling = { max_cost_usd: 0.25, max_cost_usd_per_day: 5 };

function serverSection(environment: Environment): unknown {
  if (environment['ORCHESTRA_API_KEY']) {
    return { auth: 'keys', keys: [{ name: 'default', env: 'ORCHESTRA_API_KEY', ceiling }] };
  }
  return environment['ORCHESTRA_AUTH'] === 'none' ? { auth: 'none' } : {};
}

function cloudSlots(known: KnownSlots, enabled: ReadonlySet<string>): Record<string, unknown> {
  const counts = new Map<string, number>();
  const slots: Record<string, unknown> = {};
  for (const { id, ...slot } of known.slots) {
    const count = counts.get(slot.role) ?? 0;
    if (!enabled.has(slot.upstream) || count >= mostSlotsPerRole) continue;
    counts.set(slot.role, count + 1);
    slots[id] = slot.role === 'enhance_reasoning' ? { ...slot, sandbox: 'python' } : slot;
  }
  return slots;
}

function disabledChoices(known: KnownSlots, isSet: (variable: string) => boolean): DisabledChoice[] {
  const all = [...Object.entries(known.upstreams), ...Object.entries(known.tools)];
  return all.flatMap(([name, { variable }]) => (isSet(variable) ? [] : [{ name, variable }]));
}
