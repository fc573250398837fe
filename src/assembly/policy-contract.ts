import { type ServedContract, servedContracts } from '../contract/schema.ts';
import type { TrainedContract } from '../inference/gguf-file.ts';

/** Of weights of which nobody says otherwise. */
const usual = 'slots-1';

export interface ContractSources {
  /** As the configuration names them. */
  readonly weights: string;
  /** In the configuration. */
  readonly written: ServedContract | undefined;
  readonly trainedWith: TrainedContract;
  /** Of these very weights, in models/downloads.json. */
  readonly catalogued: ServedContract | undefined;
}

/** Which contract a policy's prompts are rendered by, or what is wrong with the configuration. */
export function contractToServe({
  weights,
  written,
  trainedWith,
  catalogued,
}: ContractSources): { readonly name: ServedContract } | { readonly mistake: string } {
  const all = servedContracts.join(', ');
  const spoken = trainedWith.name ?? catalogued;
  if (spoken === undefined) {
    // Ours, but from before weights said it: a guess would make them choose badly without a word.
    const isOurs = trainedWith.hash !== undefined;
    const mistake = `policy.contract: ${weights} does not say which contract it was trained with: write one of ${all}`;
    return isOurs && written === undefined ? { mistake } : { name: written ?? usual };
  }
  const name = servedContracts.find((one) => one === spoken);
  if (name === undefined) {
    return {
      mistake: `policy: ${weights} speaks ${spoken}, which this gateway does not know: train it with one of ${all}`,
    };
  }
  const contradicts = written !== undefined && written !== name;
  return contradicts ? { mistake: `policy.contract: ${weights} speaks ${name}: leave it out` } : { name };
}

/** Weights read prompts of another contract without complaint, and worse: so it is said. */
export function otherContractNote(trainedHash: string | undefined, servedHash: string): string {
  if (trainedHash === undefined || trainedHash === servedHash) return '';
  const short = (hash: string): string => hash.slice(0, 12);
  const both = `contract ${short(trainedHash)}, while ${short(servedHash)} is served`;
  return `; WARNING: it was trained with ${both}: where prompts differ it chooses worse until it is trained again`;
}
