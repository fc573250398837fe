import { expect, test } from 'vitest';
import { openContext } from '../../src/inference/lanes.ts';
import { loadModel } from '../../src/inference/load-model.ts';
import { Rounds, type Work } from '../../src/inference/rounds.ts';
import { Sequence } from '../../src/inference/sequence.ts';
import { modelTokens } from '../../src/inference/tokens.ts';
import { writeModel } from '../support/gguf/tiny-model.ts';
import { attentive, engineOptions } from './tiny-models.ts';

/** Cancels while the given piece of work is done. */
class CancellingRounds extends Rounds {
  readonly controller = new AbortController();
  #worksLeft: number;

  constructor(chunkTokens: number, worksLeft: number) {
    super(chunkTokens);
    this.#worksLeft = worksLeft;
  }

  override take<Result>(work: Work<Result>): Promise<Result> {
    const run = () => {
      if (--this.#worksLeft === 0) this.controller.abort();
      return work.run();
    };
    return super.take({ ...work, run });
  }
}

test('a prompt that is cancelled stops with the chunk that is being computed', async () => {
  const file = writeModel(attentive());
  const options = engineOptions(file.path, { prefillChunkTokens: 16 });
  const loaded = await loadModel(options);
  const { llama, model } = loaded;
  const context = await openContext(loaded, options);
  const rounds = new CancellingRounds(16, 3);
  const sequence = new Sequence(context.getSequence(), 0, rounds, options);
  const prompt = modelTokens(model).ofText('k'.repeat(1_000));
  const question = { depth: prompt.length, admissible: [1, 2] };
  await expect(sequence.ask(prompt, [question], rounds.controller.signal)).rejects.toMatchObject({
    name: 'AbortError',
  });
  expect(sequence.evaluatedPromptTokens).toBe(3 * 16);
  await llama.dispose();
  file.remove();
});
