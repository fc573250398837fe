import type { Profiler } from 'node:inspector';

/** Processor time of one process by place, in microseconds a request. */
export interface CostTable {
  readonly rows: readonly (readonly string[])[];
}

const mostFunctions = 25;

/** Sums a profile's own times by part of the program, and names the dearest functions. */
export function costsPerRequest(title: string, profile: Profiler.Profile, requests: number): CostTable {
  const byPart = new Map<string, number>();
  const byFunction = new Map<string, number>();
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const parents = new Map(
    profile.nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)),
  );
  const deltas = profile.timeDeltas ?? [];
  for (const [index, id] of (profile.samples ?? []).entries()) {
    const node = nodes.get(id);
    const deltaUs = deltas[index] ?? 0;
    if (!node || node.callFrame.functionName === '(idle)' || deltaUs <= 0) continue;
    add(byPart, partOf(node, nodes, parents), deltaUs);
    add(byFunction, placeOf(node.callFrame), deltaUs);
  }
  const perRequest = (sums: ReadonlyMap<string, number>) =>
    [...sums].sort(([, left], [, right]) => right - left).map(([name, us]) => [name, (us / requests).toFixed(1)]);
  const total = [...byPart.values()].reduce((sum, us) => sum + us, 0);
  return {
    rows: [
      [`-- ${title}`, (total / requests).toFixed(1)],
      ...perRequest(byPart),
      [`-- ${title}: dearest functions`],
      ...perRequest(byFunction).slice(0, mostFunctions),
    ],
  };
}

const add = (sums: Map<string, number>, name: string, value: number) => sums.set(name, (sums.get(name) ?? 0) + value);

/** A part of ours, a package, `node`; native code without an address belongs to whoever called it. */
function partOf(
  node: Profiler.ProfileNode,
  nodes: ReadonlyMap<number, Profiler.ProfileNode>,
  parents: ReadonlyMap<number, number>,
): string {
  let at: Profiler.ProfileNode | undefined = node;
  while (at) {
    const { url, functionName } = at.callFrame;
    if (functionName.startsWith('(') && functionName !== '(anonymous)' && url === '') return functionName;
    if (url !== '') return partOfUrl(url);
    const parent = parents.get(at.id);
    at = parent === undefined ? undefined : nodes.get(parent);
  }
  return '(native)';
}

function partOfUrl(url: string): string {
  const ownPart = /\/dist\/([^/]+)\//.exec(url);
  const packages = url.split('/node_modules/');
  if (packages.length > 1) return `package ${/^(?:@[^/]+\/)?[^/]+/.exec(packages.at(-1) ?? '')?.[0]}`;
  if (url.startsWith('node:'))
    return `node ${
      url
        .slice('node:'.length)
        .replace(/^internal\//, '')
        .split('/')[0]
    }`;
  return ownPart ? `our ${ownPart[1]}` : url.split('/').slice(-2).join('/');
}

function placeOf({ functionName, url, lineNumber }: Profiler.ProfileNode['callFrame']): string {
  const place = url === '' ? '' : ` ${url.split('/').slice(-3).join('/')}:${lineNumber + 1}`;
  return `${functionName || '(anonymous)'}${place}`;
}
