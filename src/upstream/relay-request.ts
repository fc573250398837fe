import { type OpenAiDialect, roleFor } from './dialect.ts';
import { wellFormedJson } from './well-formed.ts';

export type RelayPath = '/chat/completions' | '/completions' | '/embeddings';
export type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Addressed to the gateway; upstreams refuse them, and what a caller prefers is none of their business. Routers would
 * take the last three for models to turn to instead, whose price and class nobody here has looked at; a service tier
 * would have another price too.
 */
const ownFields = ['preferences', 'provider', 'max_cost', 'service_tier', 'models', 'fallbacks', 'route'];

/** The client's body as the upstream gets it: its own model name, its dialect, usage on every stream. */
export function relayBody(path: RelayPath, model: string, body: JsonObject, dialect: OpenAiDialect): string {
  const kept = Object.entries(body).filter(([key, value]) => value !== null && !ownFields.includes(key));
  const sent: Record<string, unknown> = { ...Object.fromEntries(kept), model };
  if (isObject(body['metadata'])) sent['metadata'] = foreignMetadata(body['metadata']);
  if (body['stream'] !== true) delete sent['stream_options'];
  else sent['stream_options'] = { ...asObject(body['stream_options']), include_usage: true };
  if (path === '/chat/completions') adaptChat(sent, dialect);
  return wellFormedJson(JSON.stringify(sent));
}

export const asksForUsage = (body: JsonObject): boolean => asObject(body['stream_options'])['include_usage'] === true;

function adaptChat(sent: Record<string, unknown>, dialect: OpenAiDialect): void {
  const maxTokens = sent['max_completion_tokens'] ?? sent['max_tokens'];
  delete sent['max_completion_tokens'];
  delete sent['max_tokens'];
  if (maxTokens !== undefined) sent[dialect.maxTokensField] = maxTokens;
  if (Array.isArray(sent['messages']) && !dialect.developerRole) {
    sent['messages'] = sent['messages'].map((message: unknown) =>
      isObject(message) && message['role'] === 'developer'
        ? { ...message, role: roleFor('developer', dialect) }
        : message,
    );
  }
}

function foreignMetadata(metadata: JsonObject): JsonObject | undefined {
  const foreign = Object.entries(metadata).filter(([key]) => !key.startsWith('orchestra_'));
  return foreign.length > 0 ? Object.fromEntries(foreign) : undefined;
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const asObject = (value: unknown): JsonObject => (isObject(value) ? value : {});
