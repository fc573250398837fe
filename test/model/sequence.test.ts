import { expect, test } from 'vitest';
import { DecodeTurns } from '../../src/inference/decode-turns.ts';
import { loadModel } from '../../src/inference/load-model.ts';
import { Sequence } from '../../src/inference/sequence.ts';
import { modelTokens } from '../../src/inference/tokens.ts';
import { writeModel } from '../support/gguf/tiny-model.ts';
import { attentive, engineOptions } from './tiny-models.ts';

/** Cancels while the given decode runs. */
class CancellingTurns extends DecodeTurns {
  readonly controller = new AbortController();
  #turnsLeft: number;

  constructor(turnsLeft: number) {
    super();
    this.#turnsLeft = turnsLeft;
  }

  override take<Result>(signal: AbortSignal, decode: () => Promise<Result>): Promise<Result> {
    return super.take(signal, () => {
      if (--this.#turnsLeft === 0) this.controller.abort();
      return decode();
    });
  }
}

test('a prompt that is cancelled stops with the chunk that is being computed', async () => {
  const file = writeModel(attentive());
  const options = engineOptions(file.path, { prefillChunkTokens: 16 });
  const { llama, model, context } = await loadModel(options);
  const tokens = modelTokens(model);
  // The first turn aligns the cache, so the fourth is the third chunk.
  const turns = new CancellingTurns(4);
  const sequence = new Sequence(context.getSequence(), tokens, turns, options);
  const prompt = tokens.ofText('k'.repeat(1_000));
  await expect(sequence.probe(prompt, [1 as never, 2 as never], turns.controller.signal)).rejects.toMatchObject({
    name: 'AbortError',
  });
  expect(sequence.evaluatedPromptTokens).toBe(3 * 16);
  await llama.dispose();
  file.remove();
});
