import { loadBeliefs, loadContract } from '../contract/load.ts';
import { findModel } from '../inference/downloads/catalog.ts';
import type { InferenceEngine } from '../inference/engine.ts';
import { trainedContract } from '../inference/gguf-file.ts';
import { createEstimatePolicy } from '../router/policies/estimate.ts';
import { createJudgePolicy } from '../router/policies/judge.ts';
import { createLlamaPolicy } from '../router/policies/llama.ts';
import type { ProblemReader } from '../router/policies/problem-reading.ts';
import type { SkillCounts } from '../router/policies/skills.ts';
import type { Policy } from '../router/policy.ts';
import { bundledModel, type Config } from './config.ts';
import { type ModelsPlace, openEngine } from './engines.ts';
import { ConfigError } from './load-config.ts';
import { contractToServe, otherContractNote } from './policy-contract.ts';

export interface OpenedPolicy {
  readonly policy: Policy;
  readonly fallback: Policy | undefined;
  /** The policy's own; to be closed with the gateway. */
  readonly engine: InferenceEngine | undefined;
  readonly note: string;
}

/** What policies know beside their own weights. */
export interface PolicyKnowledge {
  /** Undefined where there is no embedding. */
  readonly readProblem: ProblemReader | undefined;
  readonly skillCounts: SkillCounts;
}

/** A GGUF that can decide. */
export type OpenedLlama = Pick<OpenedPolicy, 'policy' | 'note'> & { readonly engine: InferenceEngine };

/**
 * Opens the configured policy. `estimate` stands in for one that cannot be had, and the note says so.
 * @throws ConfigError when it cannot be had and no fallback is allowed.
 */
export async function openPolicy(
  config: Config,
  place: ModelsPlace,
  knowledge: PolicyKnowledge,
  remote: Policy | undefined,
): Promise<OpenedPolicy> {
  const estimate = createEstimatePolicy({ contract: loadContract('slots-2'), ...knowledge });
  const alone = (policy: Policy, note: string) => ({ policy, fallback: undefined, engine: undefined, note });
  const { backend, model, fallback } = config.policy;
  if (backend === 'bundled') return alone(estimate, await bundledNote(config, place));
  if (backend === 'estimate' || model === undefined) {
    const sources = knowledge.readProblem
      ? 'cards, exact prices, embedded problems'
      : 'cards, exact prices, cues of the problem';
    return alone(estimate, `policy: estimate (${sources}; no language model decides)`);
  }
  const allowed = fallback === 'estimate' ? estimate : undefined;
  if (remote) {
    const note = `policy: ${remote.name}, on a server of class ${remote.place?.privacy}`;
    return { ...alone(remote, note), fallback: allowed };
  }
  const opened = await openLlama(model, config.policy, place, knowledge);
  if ('policy' in opened) return { ...opened, fallback: allowed };
  if (!allowed) throw new ConfigError([`policy.model: ${opened.note}, and policy.fallback is \`none\``]);
  return alone(estimate, `policy: estimate, because ${opened.note}`);
}

/**
 * Whether the bundled policy has cards to compare. Measured skills say more than a reading of cards: with them `estimate`
 * was ahead on recorded outcomes. And where one slot answers, what is left to decide is evidence, which it knows better.
 */
export const hasCardsToRead = ({ slots }: Config): boolean => {
  const answering = Object.values(slots).filter(({ role }) => role === 'answer');
  return answering.length > 1 && answering.some(({ skills }) => Object.keys(skills).length === 0);
};

/** What is said at start, before it is known whether the bundled policy can be had. */
async function bundledNote(config: Config, { folder }: ModelsPlace): Promise<string> {
  if (!hasCardsToRead(config)) {
    return 'policy: estimate, because no cards are to be compared: one slot answers, or all that do have measured `skills`';
  }
  const { present } = await findModel(bundledModel, folder);
  return present
    ? `policy: estimate, for the seconds until ${bundledModel} has warmed up; \`policy: { backend: estimate }\` keeps it`
    : `policy: estimate, until the base of ${bundledModel} is here: run \`npm run orchestra -- models pull ${bundledModel}\``;
}

/** Only a note where the weights cannot be had. */
export async function openLlama(
  model: string,
  { adapter, contract: written, context, thought, device, threads, decision_ms: decisionMs }: Config['policy'],
  place: ModelsPlace,
  knowledge: PolicyKnowledge,
): Promise<OpenedLlama | { readonly note: string }> {
  const opened = await openEngine({ model, adapter, contextTokens: context, sequences: 1, device, threads }, place);
  if (!opened.engine) return { note: opened.note };
  const { engine, found } = opened;
  const known = found.entry?.policy;
  const weights = engine.info.adapter?.path ?? found.path;
  const trainedWith = await trainedContract(weights);
  const spoken = contractToServe({
    weights: adapter ?? model,
    written,
    trainedWith,
    // The catalogue speaks of the weights alone: an adapter may have been trained for another contract.
    catalogued: adapter === undefined ? known?.contract : undefined,
  });
  if ('mistake' in spoken) {
    await engine.close();
    throw new ConfigError([spoken.mistake]);
  }
  const shared = { name: model, engine };
  const contract = spoken.name === 'beliefs-1' ? loadBeliefs() : loadContract(spoken.name);
  const policy =
    'questions' in contract
      ? createJudgePolicy({ ...shared, contract, decisionMs, ...knowledge })
      : createLlamaPolicy({ ...shared, contract, thoughtTokens: thought ?? known?.thoughtTokens ?? 0 });
  const trained =
    known?.trained === false && adapter === undefined ? ', which was not trained to route: for demonstration' : '';
  const other = otherContractNote(trainedWith.hash, contract.hash);
  const tuned = adapter === undefined ? '' : `, with ${adapter}`;
  return { policy, engine, note: `policy: ${opened.note}${tuned}${trained}${other}` };
}
