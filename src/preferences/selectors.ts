import { OrchestraError } from '../errors.ts';
import { nearest } from './nearest.ts';
import { type Slot, slotRoles } from './slot.ts';
import type { Weights } from './weights.ts';

const kinds = ['slot', 'role', 'model', 'upstream', 'tool'] as const;
type SelectorKind = (typeof kinds)[number];

/**
 * `slot:answer-1`, `role:search`, `model:openai/*`, `upstream:vllm`, `tool:tavily`; a bare word is a slot id or a role.
 * `*` inside the value stands for any characters.
 */
export function matchesSelector(slot: Slot, selector: string): boolean {
  const colon = selector.indexOf(':');
  const kind = selector.slice(0, colon);
  if (colon < 0 || !isKind(kind)) return wildcard(selector, slot.id) || wildcard(selector, slot.role);
  const pattern = selector.slice(colon + 1);
  return valuesOf(slot, kind).some((value) => wildcard(pattern, value));
}

/** Sum of the caller's weights for single tools that match this slot. */
export const selectorWeight = (slot: Slot, weights: Weights): number =>
  Object.entries(weights.tools).reduce(
    (sum, [selector, value]) => sum + (matchesSelector(slot, selector) ? value : 0),
    0,
  );

const upstreamPrefix = 'upstream:';

/** Whether a selector names this upstream, whatever is behind it. */
export const namesUpstream = (selector: string, upstream: string): boolean =>
  selector.startsWith(upstreamPrefix) && wildcard(selector.slice(upstreamPrefix.length), upstream);

/** A list of upstreams alone says who may see a request; one that names slots or roles says only what may be chosen. */
export const admitsUpstream = (list: readonly string[], upstream: string): boolean =>
  list.some((selector) => !selector.startsWith(upstreamPrefix) || namesUpstream(selector, upstream));

function valuesOf(slot: Slot, kind: SelectorKind): readonly string[] {
  if (kind === 'slot') return [slot.id];
  if (kind === 'role') return [slot.role];
  if (kind === 'model') return [slot.model];
  if (kind === 'upstream') return [slot.upstream];
  return slot.tools;
}

/**
 * A selector that can match nothing is a mistake, and in a deny list a leak.
 * @throws OrchestraError invalid_request naming the path and the nearest word.
 */
export function checkSelector(selector: string, slots: readonly Slot[], param: string): void {
  if (slots.some((slot) => matchesSelector(slot, selector))) return;
  const near = nearestSelector(selector, slots);
  const wayOut = near ? `Did you mean \`${near}\`?` : 'GET /v1/orchestra/slots lists what can be named.';
  throw new OrchestraError('invalid_request', `${param}: \`${selector}\` matches no slot. ${wayOut}`, { param });
}

export const nearestSelector = (selector: string, slots: readonly Slot[]): string | undefined =>
  nearest(selector, wordsOf(slots));

function wordsOf(slots: readonly Slot[]): string[] {
  const qualified = slots.flatMap((slot) =>
    kinds.flatMap((kind) => valuesOf(slot, kind).map((value) => `${kind}:${value}`)),
  );
  return [...new Set([...slots.map(({ id }) => id), ...slotRoles, ...qualified])];
}

const isKind = (word: string): word is SelectorKind => kinds.some((kind) => kind === word);

function wildcard(pattern: string, value: string): boolean {
  const [head = '', ...rest] = pattern.split('*');
  if (rest.length === 0) return pattern === value;
  const tail = rest.pop() ?? '';
  if (value.length < head.length + tail.length || !value.startsWith(head) || !value.endsWith(tail)) return false;
  let at = head.length;
  for (const piece of rest) {
    const found = value.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return at <= value.length - tail.length;
}
