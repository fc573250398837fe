import type { Profile } from './schema.ts';
import type { Weights } from './weights.ts';

const weights = (quality: number, cost: number, latency: number): Weights => ({
  quality,
  cost,
  latency,
  privacy: 0,
  tools: {},
});

const balanced = { weights: weights(0.5, 0.25, 0.25) };
const best = { weights: weights(1, 0, 0) };
const cheap = { weights: weights(0.2, 0.8, 0) };
const fast = { weights: weights(0.2, 0, 0.8) };

/** What `optimize: NAME` and the model suffix `orchestra:NAME` mean; operators add their own beside these. */
export const builtInProfiles: Readonly<Record<string, Profile>> = {
  balanced,
  best,
  quality: best,
  cheap,
  cost: cheap,
  floor: cheap,
  fast,
  latency: fast,
  nitro: fast,
  private: { ...balanced, privacy: 'self_hosted' },
  local: { ...balanced, privacy: 'local' },
};
