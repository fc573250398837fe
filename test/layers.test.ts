import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

/** Top to bottom. A folder imports only folders below it; neighbours in one row do not know each other. */
const layers = [
  ['main.ts'],
  ['commands'],
  ['assembly'],
  ['server'],
  ['router'],
  ['tools'],
  ['upstream', 'inference'],
  ['contract'],
  ['preferences'],
  ['cost'],
  ['store'],
  ['errors.ts'],
];

const source = fileURLToPath(new URL('../src', import.meta.url));
const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
const areaOf = (path: string) => relative(source, path).split('/')[0] ?? '';
const rankOf = (area: string) => layers.findIndex((row) => row.includes(area));

interface Import {
  readonly from: string;
  readonly to: string;
}

const imports: Import[] = files.flatMap((file) => {
  const text = readFileSync(join(source, file), 'utf8');
  return [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map((match) => ({
    from: join(source, file),
    to: resolve(source, dirname(file), match[1] ?? ''),
  }));
});

test('every source file belongs to a layer', () => {
  expect(files.length).toBeGreaterThan(0);
  expect(files.filter((file) => rankOf(areaOf(join(source, file))) < 0)).toEqual([]);
});

test('folders import only folders below them', () => {
  const crossing = imports.filter(({ from, to }) => areaOf(from) !== areaOf(to));
  const upward = crossing.filter(({ from, to }) => rankOf(areaOf(to)) <= rankOf(areaOf(from)));
  expect(crossing.length).toBeGreaterThan(0);
  expect(upward.map(({ from, to }) => `${relative(source, from)} -> ${relative(source, to)}`)).toEqual([]);
});

test('no import cycle inside a folder', () => {
  const edges = new Map<string, string[]>();
  for (const { from, to } of imports) edges.set(from, [...(edges.get(from) ?? []), to]);
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): string | undefined => {
    if (path.includes(file))
      return [...path.slice(path.indexOf(file)), file].map((f) => relative(source, f)).join(' -> ');
    if (done.has(file)) return undefined;
    for (const next of edges.get(file) ?? []) {
      const cycle = visit(next, [...path, file]);
      if (cycle) return cycle;
    }
    done.add(file);
    return undefined;
  };
  expect([...edges.keys()].map((file) => visit(file, [])).filter(Boolean)).toEqual([]);
});
