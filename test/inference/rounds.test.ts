import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Rounds, type Urgency, type Work, type WorkKind } from '../../src/inference/rounds.ts';

const chunkTokens = 8;
const never = new AbortController().signal;

interface Step {
  readonly request: number;
  readonly kind: WorkKind;
  readonly tokens: number;
  readonly batch: number;
}

interface Plan {
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly inProgress: boolean;
}

/** A made-up model: a batch is whatever is started before the event loop turns, and every piece takes one turn. */
function fakeModel(goesOneByOne = false) {
  const rounds = new Rounds(chunkTokens, {
    goOneByOne: () => goesOneByOne,
    measure: (_, run) => run(),
  });
  const steps: Step[] = [];
  let batch = 0;
  let isOpen = false;
  const startBatch = () => {
    if (isOpen) return;
    isOpen = true;
    batch++;
    setImmediate(() => {
      isOpen = false;
    });
  };
  const take = (request: number, urgency: Urgency, kind: WorkKind, tokens: number, signal = never): Promise<number> => {
    const work: Work<number> = {
      kind,
      lane: request,
      tokens,
      urgency,
      signal,
      run: async () => {
        startBatch();
        steps.push({ request, kind, tokens, batch });
        await new Promise((resolve) => setImmediate(resolve));
        return request;
      },
    };
    return rounds.take(work);
  };
  return { take, steps };
}

/** Reads a prompt in chunks, then writes; returns what it was told, piece by piece. */
async function play(request: number, plan: Plan, { take }: ReturnType<typeof fakeModel>): Promise<number[]> {
  const urgency = { arrivedAtMs: request, inProgress: plan.inProgress };
  const told: number[] = [];
  for (let read = 0; read < plan.promptTokens; read += chunkTokens)
    told.push(await take(request, urgency, 'prefill', Math.min(chunkTokens, plan.promptTokens - read)));
  for (let written = 0; written < plan.outputTokens; written++) told.push(await take(request, urgency, 'decode', 1));
  return told;
}

const plan = fc.record({
  promptTokens: fc.integer({ min: 1, max: 60 }),
  outputTokens: fc.integer({ min: 0, max: 12 }),
  inProgress: fc.boolean(),
});
const plans = fc.array(plan, { minLength: 1, maxLength: 8 });

test('every request gets every piece of its own work, and nobody else’s', async () => {
  await fc.assert(
    fc.asyncProperty(plans, async (requests) => {
      const model = fakeModel();
      const told = await Promise.all(requests.map((request, index) => play(index, request, model)));
      told.forEach((pieces, index) => {
        const { promptTokens = 0, outputTokens = 0 } = requests[index] ?? {};
        expect(pieces.length).toBe(Math.ceil(promptTokens / chunkTokens) + outputTokens);
        expect(pieces.every((piece) => piece === index)).toBe(true);
      });
    }),
    { numRuns: 60 },
  );
});

test('whoever writes waits for one chunk of prompt at most', async () => {
  await fc.assert(
    fc.asyncProperty(plans, async (requests) => {
      const model = fakeModel();
      await Promise.all(requests.map((request, index) => play(index, request, model)));
      for (const index of requests.keys()) {
        const decodes = model.steps.flatMap(({ request, kind }, at) =>
          request === index && kind === 'decode' ? [at] : [],
        );
        decodes.slice(1).forEach((at, gap) => {
          const between = model.steps.slice((decodes[gap] ?? 0) + 1, at).filter(({ kind }) => kind === 'prefill');
          expect(new Set(between.map(({ batch }) => batch)).size).toBeLessThanOrEqual(1);
        });
      }
    }),
    { numRuns: 60 },
  );
});

test('a batch of prompt is never longer than a chunk, and never mixed with writing', async () => {
  await fc.assert(
    fc.asyncProperty(plans, async (requests) => {
      const model = fakeModel();
      await Promise.all(requests.map((request, index) => play(index, request, model)));
      const batches = new Set(model.steps.map(({ batch }) => batch));
      for (const number of batches) {
        const steps = model.steps.filter(({ batch }) => batch === number);
        expect(new Set(steps.map(({ kind }) => kind)).size).toBe(1);
        const tokens = steps.reduce((sum, step) => sum + step.tokens, 0);
        if (steps[0]?.kind === 'prefill') expect(tokens).toBeLessThanOrEqual(chunkTokens);
      }
    }),
    { numRuns: 60 },
  );
});

test('short prompts are read together, up to a chunk, and longer ones one at a time', async () => {
  const batchesOf = async (lengths: readonly number[]) => {
    const model = fakeModel();
    const begin = (tokens: number, lane: number) =>
      model.take(lane, { arrivedAtMs: lane, inProgress: false }, 'prefill', tokens);
    await Promise.all(lengths.map(begin));
    return model.steps.map(({ batch }) => batch);
  };
  expect(new Set(await batchesOf(new Array<number>(chunkTokens).fill(1))).size).toBe(1);
  expect(new Set(await batchesOf(new Array<number>(chunkTokens + 1).fill(1))).size).toBe(2);
  expect(new Set(await batchesOf([chunkTokens / 2, chunkTokens / 2])).size).toBe(2);
  expect(new Set(await batchesOf([1, chunkTokens / 2, 1])).size).toBe(3);
});

test('writers who are ready together share every batch', async () => {
  const model = fakeModel();
  const writer = { promptTokens: 0, outputTokens: 5, inProgress: false };
  await Promise.all([0, 1, 2, 3].map((index) => play(index, writer, model)));
  expect(new Set(model.steps.map(({ batch }) => batch)).size).toBe(5);
});

test('writers go one by one where that is sooner', async () => {
  const model = fakeModel(true);
  const writer = { promptTokens: 0, outputTokens: 5, inProgress: false };
  await Promise.all([0, 1, 2].map((index) => play(index, writer, model)));
  expect(new Set(model.steps.map(({ batch }) => batch)).size).toBe(15);
});

test('a batch is in the order of the sequences, whoever came first', async () => {
  const model = fakeModel();
  const urgency = { arrivedAtMs: 0, inProgress: false };
  await Promise.all([3, 0, 2, 1].map((lane) => model.take(lane, urgency, 'decode', 1)));
  expect(model.steps.map(({ request }) => request)).toEqual([0, 1, 2, 3]);
});

test('a turn in progress goes before new runs, but not before one that has waited long', async () => {
  const order = async (waitedMs: number) => {
    const model = fakeModel();
    const old = { arrivedAtMs: 0, inProgress: false };
    const later = { arrivedAtMs: waitedMs, inProgress: true };
    await Promise.all([model.take(0, old, 'prefill', chunkTokens), model.take(1, later, 'prefill', chunkTokens)]);
    return model.steps.toSorted((one, other) => one.batch - other.batch).map(({ request }) => request);
  };
  expect(await order(1_000)).toEqual([1, 0]);
  expect(await order(60_000)).toEqual([0, 1]);
});

test('a cancelled piece of work is not begun, and the others go on', async () => {
  const model = fakeModel();
  const urgency = { arrivedAtMs: 0, inProgress: false };
  const controller = new AbortController();
  const cancelled = model.take(0, urgency, 'prefill', 4, controller.signal);
  const other = model.take(1, urgency, 'decode', 1);
  controller.abort();
  await expect(cancelled).rejects.toMatchObject({ name: 'AbortError' });
  expect(await other).toBe(1);
  expect(model.steps.map(({ request }) => request)).toEqual([1]);
});

test('a failure of the native code is one request’s, as `crashed`', async () => {
  const rounds = new Rounds(chunkTokens);
  const work = {
    kind: 'decode',
    lane: 0,
    tokens: 1,
    urgency: { arrivedAtMs: 0, inProgress: false },
    signal: never,
  } as const;
  const failing = rounds.take({ ...work, run: () => Promise.reject(new Error('Eval has failed')) });
  const working = rounds.take({ ...work, run: async () => 7 });
  await expect(failing).rejects.toMatchObject({ name: 'EngineFailure', kind: 'crashed' });
  expect(await working).toBe(7);
});
