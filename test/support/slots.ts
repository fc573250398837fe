import { ratesFrom } from '../../src/cost/rates.ts';
import type { Slot } from '../../src/preferences/slot.ts';

/** A slot with unremarkable facts, for tests that care about one or two of them. */
export function aSlot(part: Partial<Slot> & Pick<Slot, 'id'>): Slot {
  return {
    role: 'answer',
    model: `loopback/${part.id}`,
    upstream: 'loopback',
    tools: [],
    quality: 'good general model',
    skills: {},
    rates: ratesFrom({ input: 1, output: 2 }),
    latencyMs: 1000,
    privacy: 'any',
    regions: [],
    contextTokens: 8192,
    maxOutputTokens: 1024,
    input: ['text'],
    clientTools: false,
    jsonSchema: false,
    ...part,
  };
}
