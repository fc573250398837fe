import { EngineFailure } from './engine.ts';

/**
 * The texts of all choices as one tree of token ids. Only where the tree branches is the model asked, so that twelve
 * slots cost a handful of questions.
 */
export interface TrieNode {
  readonly branches: ReadonlyMap<number, TrieNode>;
  /** Of a leaf: which choice ends here. */
  readonly choice: number | undefined;
}

/** What may follow the first `depth` tokens of a path. */
export interface Question {
  readonly depth: number;
  readonly admissible: readonly number[];
}

/**
 * Chances of the admissible tokens for each question along `path` (tokens from the root), in their order. They sum to 1
 * for each question: what is not admissible has been masked out.
 */
export type Probe = (
  path: readonly number[],
  questions: readonly Question[],
) => Promise<readonly (readonly number[])[]>;

/** Questions that one reading of one path answers. */
interface Route {
  path: readonly number[];
  readonly asked: { readonly node: TrieNode; readonly question: Question }[];
}

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
  const chances = new Map<TrieNode, readonly number[]>();
  for (const { path, asked } of routesOf(root)) {
    const answers = await probe(
      path,
      asked.map(({ question }) => question),
    );
    asked.forEach(({ node }, index) => {
      chances.set(node, answers[index] ?? []);
    });
  }
  const scores = new Array<number>(choiceCount).fill(Number.NEGATIVE_INFINITY);
  const walk = (start: TrieNode, logProbability: number): void => {
    const { node } = descend(start, []);
    if (node.choice !== undefined) scores[node.choice] = logProbability;
    [...node.branches.values()].forEach((next, index) => {
      walk(next, logProbability + Math.log(chances.get(node)?.[index] ?? 0));
    });
  };
  walk(root, 0);
  return scores;
}

/** Paths, each as long as it meets questions, that meet every question once; neighbours share most of their way. */
function routesOf(root: TrieNode): Route[] {
  const routes: Route[] = [];
  const walk = (start: TrieNode, startPath: readonly number[], open?: Route): void => {
    const { node, path } = descend(start, startPath);
    if (node.choice !== undefined) return;
    const route = open ?? { path, asked: [] };
    if (open === undefined) routes.push(route);
    route.path = path;
    route.asked.push({ node, question: { depth: path.length, admissible: [...node.branches.keys()] } });
    let isOpen = true;
    for (const [token, next] of node.branches) {
      if (!hasQuestion(next)) continue;
      walk(next, [...path, token], isOpen ? route : undefined);
      isOpen = false;
    }
  };
  walk(root, []);
  return routes;
}

const hasQuestion = (node: TrieNode): boolean => descend(node, []).node.choice === undefined;

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
