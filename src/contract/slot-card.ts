import type { Slot } from '../preferences/slot.ts';
import type { Attempt } from './evidence.ts';
import { fill } from './fill.ts';
import type { Contract, ContractRole } from './schema.ts';

/** What the policy sees of a slot. All strings: numbers would print differently in the trainer. */
export interface SlotCard {
  readonly id: string;
  /** One or two sentences: what it is good at, where it runs. */
  readonly sentence: string;
  readonly inputPrice: string;
  readonly outputPrice: string;
  readonly latency: string;
}

/** One admissible choice, as rendered. */
export interface Choice {
  readonly role: ContractRole;
  readonly card: SlotCard;
}

type ShownSlot = Pick<Slot, 'id' | 'quality' | 'rates' | 'latencyMs' | 'privacy'>;

export function slotCard(slot: ShownSlot, { slotText }: Contract): SlotCard {
  const sentence = fill(slotText.sentence, {
    slot: slot.id,
    quality: endedSentence(slot.quality),
    place: slotText.places[slot.privacy],
  });
  return {
    id: slot.id,
    sentence,
    inputPrice: slot.rates === undefined ? slotText.unknownPrice : priceText(slot.rates.input),
    outputPrice: slot.rates === undefined ? slotText.unknownPrice : priceText(slot.rates.output),
    latency: `${Math.round(slot.latencyMs / 1000)}s`,
  };
}

/** With a full stop where its author left it out. */
export function endedSentence(quality: string): string {
  const words = quality.trim();
  return /[.!?]$/.test(words) ? words : `${words}.`;
}

/** The choice of handing out an attempt: free and immediate (`slots-2`). */
export function deliverCard(attempt: Attempt, { slotText }: Contract): SlotCard {
  const sentence = fill(slotText.sentence, { slot: attempt.id, quality: slotText.deliver, place: '' }).trim();
  return { id: attempt.id, sentence, inputPrice: '$0', outputPrice: '$0', latency: '0s' };
}

/** Nano-dollars per million units as the exact decimal number of dollars: `$1.25`, `$10`. */
function priceText(nanoUsdPerMillion: bigint): string {
  const digits = nanoUsdPerMillion.toString().padStart(10, '0');
  const fraction = digits.slice(-9).replace(/0+$/, '');
  return `$${digits.slice(0, -9)}${fraction === '' ? '' : `.${fraction}`}`;
}

/** The description of a function's `model`: ids, a sentence each, then the table of prices and latencies. */
export function describeSlots(cards: readonly SlotCard[], { slotText }: Contract): string {
  const choices = fill(slotText.choices, { ids: cards.map(({ id }) => `'${id}'`).join(', ') });
  const rows = cards.map(({ id, inputPrice, outputPrice, latency }) =>
    fill(slotText.row, { slot: id, input: inputPrice, output: outputPrice, latency }),
  );
  return [[choices, ...cards.map(({ sentence }) => sentence)].join(' '), slotText.table, ...rows].join('\n');
}
