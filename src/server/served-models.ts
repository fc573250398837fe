import { OrchestraError } from '../errors.ts';
import { nearest } from '../preferences/nearest.ts';
import type { RelayedModel, RelayedUpstream, ServerParts } from './parts.ts';

export type ServedModel =
  | { readonly kind: 'run'; readonly profile: string | undefined }
  | { readonly kind: 'relay'; readonly upstream: RelayedUpstream; readonly model: RelayedModel };

const virtualNames = ['orchestra', 'auto'];

/** Names of the virtual model: its two names, each alone and with every profile. */
export const virtualModels = ({ profiles }: Pick<ServerParts, 'profiles'>): string[] =>
  virtualNames.flatMap((name) => [name, ...Object.keys(profiles).map((profile) => `${name}:${profile}`)]);

/** Names are kept with records and prices, so a pattern such as `openai/*` does not admit every length. */
const longestName = 256;

/** @throws OrchestraError unknown_model with the nearest name. */
export function resolveModel(name: string, parts: ServerParts): ServedModel {
  if (name.length > longestName) throw unknownModel(name, parts);
  const [base = '', profile] = splitOnce(name, ':');
  if (virtualNames.includes(base)) {
    if (profile === undefined || Object.hasOwn(parts.profiles, profile)) return { kind: 'run', profile };
    throw unknownModel(name, parts);
  }
  const [upstreamName = '', upstreamModel] = splitOnce(name, '/');
  const upstream = parts.relays.get(upstreamName);
  const model = upstreamModel === undefined ? undefined : upstream?.find(upstreamModel);
  if (!upstream || !model) throw unknownModel(name, parts);
  return { kind: 'relay', upstream, model };
}

function splitOnce(text: string, separator: string): string[] {
  const at = text.indexOf(separator);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

export function unknownModel(name: string, parts: ServerParts): OrchestraError {
  const known = [...virtualModels(parts), ...listedRelays(parts).map(({ slot }) => slot.id)];
  const near = nearest(name.slice(0, 200), known);
  const wayOut = near ? `Did you mean \`${near}\`?` : 'GET /v1/models lists what is served.';
  return new OrchestraError('unknown_model', `The model \`${name.slice(0, 200)}\` is not served here. ${wayOut}`, {
    param: 'model',
  });
}

export const listedRelays = ({ relays }: ServerParts): RelayedModel[] =>
  [...relays.values()].flatMap(({ listed }) => listed);

/** @throws OrchestraError invalid_request when there is none. */
export function modelOf(body: unknown): string {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new OrchestraError('invalid_request', 'The body must be a JSON object.');
  }
  if ('model' in body && typeof body.model === 'string' && body.model !== '') return body.model;
  throw new OrchestraError('invalid_request', 'model: must name a model; GET /v1/models lists them.', {
    param: 'model',
  });
}
