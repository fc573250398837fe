import type { FastifyInstance } from 'fastify';
import type { Rates } from '../cost/rates.ts';
import type { PrivacyClass } from '../preferences/privacy.ts';
import { routeSchemas } from './docs.ts';
import type { ServerParts } from './parts.ts';
import { listedRelays, unknownModel, virtualModels } from './served-models.ts';

interface ModelFacts {
  readonly id: string;
  readonly ownedBy: string;
  readonly privacy: PrivacyClass;
  readonly contextTokens: number;
  readonly rates?: Rates | undefined;
}

/** Both OpenAI's and Anthropic's shape in one object: each client finds its own keys. */
export function modelRoutes(app: FastifyInstance, parts: ServerParts): void {
  const created = Math.floor(parts.now() / 1000);
  const models = servedModels(parts).map((facts) => modelObject(facts, created));
  const list = {
    object: 'list',
    data: models,
    has_more: false,
    first_id: models[0]?.id ?? null,
    last_id: models.at(-1)?.id ?? null,
  };
  app.get('/v1/models', { schema: routeSchemas.models }, async () => list);
  app.get<{ Params: { '*': string } }>('/v1/models/*', { schema: routeSchemas.model }, async ({ params }) => {
    const model = models.find(({ id }) => id === params['*']);
    if (!model) throw unknownModel(params['*'], parts);
    return model;
  });
}

function servedModels(parts: ServerParts): ModelFacts[] {
  const contextTokens = Math.max(0, ...parts.slots.map((slot) => slot.contextTokens));
  const virtual = virtualModels(parts).map((id): ModelFacts => {
    const profile = id.split(':')[1];
    const privacy = profile === undefined ? undefined : parts.profiles[profile]?.privacy;
    return { id, ownedBy: 'orchestra', privacy: privacy ?? 'any', contextTokens };
  });
  const relayed = listedRelays(parts).map(({ slot }): ModelFacts => {
    const { id, upstream: ownedBy, privacy, contextTokens, rates } = slot;
    return { id, ownedBy, privacy, contextTokens, rates };
  });
  return [...virtual, ...relayed];
}

const modelObject = ({ id, ownedBy, privacy, contextTokens, rates }: ModelFacts, created: number) => ({
  id,
  object: 'model',
  created,
  owned_by: ownedBy,
  context_length: contextTokens,
  privacy,
  ...(rates ? { pricing: pricing(rates) } : {}),
  type: 'model',
  display_name: id,
  created_at: new Date(created * 1000).toISOString(),
});

/** In US dollars: tokens by the million, the rest by the piece. */
export const pricing = (rates: Rates) => ({
  currency: 'USD',
  input_per_million: usd(rates.input),
  output_per_million: usd(rates.output),
  cache_read_per_million: usd(rates.cacheRead),
  cache_write_per_million: usd(rates.cacheWrite),
  cache_write_1h_per_million: usd(rates.cacheWriteHour),
  reasoning_per_million: usd(rates.reasoning),
  per_call: usd(rates.call) / 1e6,
  per_second: usd(rates.millisecond) / 1e3,
});

const usd = (nanoUsdPerMillion: bigint): number => Number(nanoUsdPerMillion) / 1e9;
