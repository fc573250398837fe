import { type WeightAxis, type Weights, weightAxes } from '../preferences/weights.ts';
import { fill } from './fill.ts';
import type { Contract } from './schema.ts';

/**
 * What the caller cares about as plain sentences for the policy; empty for the balanced default. Liking of single tools
 * is left out: selectors may name brands, which never reach the policy.
 */
export function phrasePreference(weights: Weights, instruction: string | undefined, contract: Contract): string {
  const texts = contract.preference;
  const wish = instruction?.trim() ?? '';
  const spoken = [weightSentences(weights, texts), wish === '' ? '' : fill(texts.instruction, { instruction: wish })];
  return spoken.filter((sentence) => sentence !== '').join(' ');
}

function weightSentences(weights: Weights, texts: Contract['preference']): string {
  const sum = weightAxes.reduce((total, axis) => total + weights[axis], 0);
  if (sum === 0 || weightAxes.every((axis) => weights[axis] === texts.balanced[axis])) return '';
  const share = (axis: WeightAxis): number => weights[axis] / sum;
  const large = weightAxes.filter((axis) => share(axis) >= texts.largeShare);
  const medium = weightAxes.filter((axis) => share(axis) >= texts.smallShare && share(axis) < texts.largeShare);
  // Privacy has no weight unless somebody asks for it, so its absence says nothing.
  const small = weightAxes.filter((axis) => share(axis) < texts.smallShare && axis !== 'privacy');
  const sentence = (template: string, named: readonly WeightAxis[]): string => {
    const names = named.map((axis) => texts.axes[axis]);
    return names.length === 0 ? '' : fill(template, { axes: enumerate(names, texts.and) });
  };
  return [sentence(texts.large, large), sentence(texts.medium, medium), sentence(texts.small, small)]
    .filter((text) => text !== '')
    .join(' ');
}

const enumerate = (names: readonly string[], and: string): string =>
  [names.slice(0, -1).join(', '), ...names.slice(-1)].filter((part) => part !== '').join(and);
