import { EngineFailure } from './engine.ts';

/**
 * The texts of all choices as one tree of token ids. Only where the tree branches is the model asked, so that twelve
 * slots cost a handful of probes.
 */
export interface TrieNode {
  readonly branches: ReadonlyMap<number, TrieNode>;
  /** Of a leaf: which choice ends here. */
  readonly choice: number | undefined;
}

/**
 * Chances of the admissible next tokens after `path` (tokens from the root), in their order. They sum to 1: what is
 * not admissible has been masked out.
 */
export type Probe = (path: readonly number[], admissible: readonly number[]) => Promise<readonly number[]>;

/**
 * `endToken` is put behind every choice. So a choice that is the beginning of another one ("good", "good enough")
 * ends in a branch of its own, where the model weighs stopping against going on; on all others it changes nothing.
 */
export function buildTrie(choices: readonly (readonly number[])[], endToken: number): TrieNode {
  const grow = (members: readonly number[], depth: number): TrieNode => {
    const ended = members.find((choice) => depth > (choices[choice]?.length ?? 0));
    if (ended !== undefined) return leaf(ended, members);
    const byToken = new Map<number, number[]>();
    for (const choice of members) {
      const token = choices[choice]?.[depth] ?? endToken;
      byToken.set(token, [...(byToken.get(token) ?? []), choice]);
    }
    const branches = [...byToken].map(([token, group]) => [token, grow(group, depth + 1)] as const);
    return { branches: new Map(branches), choice: undefined };
  };
  return grow([...choices.keys()], 0);
}

function leaf(choice: number, members: readonly number[]): TrieNode {
  if (members.length > 1) {
    throw new EngineFailure('invalid', `choices ${members.join(' and ')} cannot be told apart by this model's tokens`);
  }
  return { branches: new Map(), choice };
}

/** Natural logs of the product of masked conditionals along each choice, in the order of the choices. */
export async function scoreTrie(root: TrieNode, choiceCount: number, probe: Probe): Promise<number[]> {
  const scores = new Array<number>(choiceCount).fill(Number.NEGATIVE_INFINITY);
  const walk = async (start: TrieNode, startPath: readonly number[], logProbability: number): Promise<void> => {
    const { node, path } = descend(start, startPath);
    if (node.choice !== undefined) {
      scores[node.choice] = logProbability;
      return;
    }
    const probabilities = await probe(path, [...node.branches.keys()]);
    let index = 0;
    for (const [token, next] of node.branches) {
      await walk(next, [...path, token], logProbability + Math.log(probabilities[index++] ?? 0));
    }
  };
  await walk(root, [], 0);
  return scores;
}

/** Goes down to the next place where there is something to decide, or to a leaf. */
function descend(start: TrieNode, startPath: readonly number[]): { node: TrieNode; path: number[] } {
  let node = start;
  const path = [...startPath];
  while (node.branches.size === 1) {
    for (const [token, next] of node.branches) {
      path.push(token);
      node = next;
    }
  }
  return { node, path };
}
