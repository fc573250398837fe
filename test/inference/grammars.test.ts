import type { LlamaGrammar, LlamaModel } from 'node-llama-cpp';
import { expect, test } from 'vitest';
import { grammarsOf } from '../../src/inference/grammars.ts';

test('a grammar is read once, but one of a private run is not kept', async () => {
  const read: string[] = [];
  const createGrammar = async ({ grammar }: { grammar: string }) => {
    read.push(grammar);
    return {} as LlamaGrammar;
  };
  const readGrammar = grammarsOf({ createGrammar }, {} as LlamaModel);
  for (const isPrivate of [true, true]) await readGrammar('secret', isPrivate);
  for (const isPrivate of [false, false, true]) await readGrammar('public', isPrivate);
  expect(read).toEqual(['secret', 'secret', 'public']);
});
