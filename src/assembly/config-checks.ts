import { decimalToInteger } from '../cost/money.ts';
import type { PriceText } from '../cost/rates.ts';
import { nearest } from '../preferences/nearest.ts';
import type { Config, SlotConfig } from './config.ts';
import type { Environment } from './settings.ts';

/** What a schema cannot say: everything that one entry names must be there. One line a mistake, with the way out. */
export function crossChecks(config: Config): string[] {
  return [
    ...Object.entries(config.slots).flatMap(([id, slot]) => slotChecks(`slots.${id}`, slot, config)),
    ...config.relay.flatMap((pattern, index) => relayChecks(`relay.${index}`, pattern.split('/')[0] ?? '', config)),
    ...localNameChecks(config),
    ...embeddingChecks(config),
    ...serverChecks(config),
    ...priceChecks(config),
  ];
}

/** What nobody counts would cost nothing: a search is billed by sources and writer, and policies that run here tell no time. */
function priceChecks({ policy, slots, tools }: Config): string[] {
  const ownPolicy = policy.backend !== 'remote' && isPaid(policy.price?.per_second);
  return [
    ...(ownPolicy ? ['policy.price.per_second: only a remote policy is billed by the second: leave it out'] : []),
    ...Object.entries(slots).flatMap(([id, { role, price }]) =>
      role === 'search' && typeof price === 'object' ? searchPriceChecks(`slots.${id}`, price) : [],
    ),
    ...Object.entries(tools).flatMap(([id, { price = {} }]) => toolPriceChecks(`tools.${id}`, price)),
  ];
}

function searchPriceChecks(path: string, price: PriceText): string[] {
  return paidUnits(price).map((unit) =>
    unit.startsWith('per_')
      ? `${path}.price.${unit}: a search is billed by its sources: write the price of each under \`tools\``
      : `${path}.price.${unit}: a search is billed for tokens by the slot of its \`writer\`: write the price there`,
  );
}

/** A tool is used by the call and by the second. */
const toolPriceChecks = (path: string, price: PriceText): string[] =>
  paidUnits(price)
    .filter((unit) => !unit.startsWith('per_'))
    .map((unit) => `${path}.price.${unit}: tools count no tokens: write \`per_call\` or \`per_second\` instead`);

const paidUnits = (price: PriceText): string[] =>
  Object.entries(price).flatMap(([unit, usd]) => (isPaid(usd) ? [unit] : []));

const isPaid = (usd: string | number | undefined): boolean => decimalToInteger(usd ?? 0, 15) > 0n;

/** Else a model that is thought to run here would be asked for elsewhere. */
function localNameChecks(config: Config): string[] {
  if (config.upstreams['local'] === undefined || !hasLocalModels(config)) return [];
  return ['upstreams.local: relays know the models that run here by this name: call the upstream something else'];
}

const hasLocalModels = ({ models, embeddings }: Config): boolean =>
  Object.keys(models).length + Object.keys(embeddings).length > 0;

/** Both kinds of models that run here are called `local/NAME`. */
function embeddingChecks({ models, embeddings, tools }: Config): string[] {
  const known = Object.keys(embeddings);
  return [
    ...known
      .filter((name) => models[name] !== undefined)
      .map((name) => `embeddings.${name}: \`models\` has an entry of this name too: call one of them something else`),
    ...Object.entries(tools).flatMap(([id, tool]) =>
      tool.kind === 'local_search' && tool.embedding !== undefined
        ? unknownName(`tools.${id}.embedding`, tool.embedding, known, 'entry of `embeddings`')
        : [],
    ),
  ];
}

function slotChecks(path: string, slot: SlotConfig, config: Config): string[] {
  if (slot.role === 'search') {
    const sources = toolsOf(config, ['tavily', 'searxng', 'local_search']);
    return [
      ...slot.tools.flatMap((tool, index) => unknownName(`${path}.tools.${index}`, tool, sources, 'search tool')),
      ...(slot.writer === undefined
        ? []
        : unknownName(`${path}.writer`, slot.writer, answerSlots(config), 'answer slot')),
    ];
  }
  const sandboxes = toolsOf(config, ['sandbox']);
  return [
    ...(slot.role === 'enhance_reasoning'
      ? unknownName(`${path}.sandbox`, slot.sandbox, sandboxes, 'sandbox tool')
      : []),
    ...expertChecks(path, slot, config),
  ];
}

function relayChecks(path: string, upstream: string, config: Config): string[] {
  const { upstreams } = config;
  if (upstream === 'local' && hasLocalModels(config)) return [];
  const kind = upstreams[upstream]?.kind;
  if (kind === undefined) return unknownName(path, upstream, Object.keys(upstreams), 'entry of `upstreams`');
  if (kind === 'openai') return [];
  return [
    `${path}: \`${upstream}\` is of kind ${kind}, which is not relayed: make its models slots, or relay an upstream of kind openai`,
  ];
}

function expertChecks(path: string, slot: Exclude<SlotConfig, { role: 'search' }>, config: Config): string[] {
  const { local, upstream, model } = slot;
  if (local !== undefined && upstream !== undefined) return [`${path}: has both \`local\` and \`upstream\`: keep one`];
  if (local !== undefined) return unknownName(`${path}.local`, local, Object.keys(config.models), 'entry of `models`');
  if (upstream === undefined || model === undefined) return [`${path}: needs \`upstream\` and \`model\`, or \`local\``];
  const schemaPromised = slot.role === 'answer' && slot.json_schema;
  if (schemaPromised && config.upstreams[upstream]?.kind === 'anthropic') {
    return [`${path}.json_schema: \`${upstream}\` is of kind anthropic, which holds to no JSON schema: leave it out`];
  }
  return unknownName(`${path}.upstream`, upstream, Object.keys(config.upstreams), 'entry of `upstreams`');
}

function unknownName(path: string, wanted: string, known: readonly string[], kind: string): string[] {
  if (known.includes(wanted)) return [];
  const near = nearest(wanted, known);
  const wayOut = near ? `did you mean \`${near}\`?` : `known: ${known.join(', ') || 'none'}`;
  return [`${path}: no ${kind} is called \`${wanted}\`: ${wayOut}`];
}

const toolsOf = (config: Config, kinds: readonly string[]): string[] =>
  Object.entries(config.tools).flatMap(([id, { kind }]) => (kinds.includes(kind) ? [id] : []));

const answerSlots = (config: Config): string[] =>
  Object.entries(config.slots).flatMap(([id, { role }]) => (role === 'answer' ? [id] : []));

/** Keys that are named by a variable need it to be set. */
export const keyChecks = ({ server }: Config, environment: Environment): string[] =>
  server.keys.flatMap(({ name, env }, index) =>
    env === undefined || environment[env]
      ? []
      : [`server.keys.${index}.env: ${env} is not set: set it to the secret of \`${name}\``],
  );

function serverChecks(config: Config): string[] {
  const { server, policy } = config;
  const problems: string[] = [];
  if (!isLoopback(server.host) && server.auth === undefined) {
    problems.push(
      `server.host: ${server.host} can be reached by others: set \`server.auth\` to \`keys\`, or to \`none\` if you mean it (without a file: ORCHESTRA_API_KEY, or ORCHESTRA_AUTH=none)`,
    );
  }
  if (server.auth === 'keys' && server.keys.length === 0)
    problems.push('server.keys: `auth: keys` needs at least one key');
  if (policy.backend === 'llama' && policy.model === undefined) {
    problems.push('policy.model: the llama backend needs one: an id of models/downloads.json or a path to a GGUF');
  }
  if (policy.backend === 'estimate' && policy.contract !== undefined) {
    problems.push('policy.contract: `estimate` reads no prompt: leave it out');
  }
  return [...problems, ...bundledPolicyChecks(config), ...remotePolicyChecks(config)];
}

function bundledPolicyChecks({ policy }: Config): string[] {
  const { backend, model, adapter, contract, fallback } = policy;
  if (backend !== 'bundled') return [];
  const ownWeights = model !== undefined || adapter !== undefined || contract !== undefined;
  return [
    ...(ownWeights
      ? ['policy.backend: `llama` is the one that takes weights of your own; the bundled one has its own']
      : []),
    ...(fallback === 'none'
      ? [
          'policy.fallback: the bundled policy warms up behind `estimate`; without it, write `backend: llama, model: card-reader`',
        ]
      : []),
  ];
}

function remotePolicyChecks({ policy, upstreams }: Config): string[] {
  const { backend, upstream, model, price, contract } = policy;
  if (backend !== 'remote') {
    return upstream === undefined ? [] : ['policy.upstream: only the remote backend has one: leave it out'];
  }
  if (upstream === undefined || model === undefined) return ['policy: the remote backend needs `upstream` and `model`'];
  const free = '{ input: 0, output: 0 }';
  return [
    ...unknownName('policy.upstream', upstream, Object.keys(upstreams), 'entry of `upstreams`'),
    ...(contract === 'beliefs-1'
      ? ['policy.contract: beliefs-1 needs chances, which servers do not show: use the llama backend']
      : []),
    ...(price ? [] : [`policy.price: write what \`${upstream}\` charges; a machine of your own: ${free}`]),
  ];
}

const isLoopback = (host: string): boolean => ['127.0.0.1', '::1', 'localhost'].includes(host);
