import { afterEach, expect, test } from 'vitest';
import { decide } from '../end-to-end/report.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { writeModel } from '../support/gguf/tiny-model.ts';
import { user } from '../support/http.ts';
import { attentive, prefersB } from './tiny-models.ts';

/** Weights say in their header which prompts they were trained on, so nobody has to write it. */
const made: { remove(): void }[] = [];
let gateway: TestGateway | undefined;
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
  for (const file of made.splice(0)) file.remove();
});

async function start(trainedWith: string, written: object = {}): Promise<TestGateway> {
  const file = writeModel(attentive({ contract: trainedWith }));
  made.push(file);
  const fixed = { backend: 'llama', model: file.path, context: 8192, device: 'cpu', threads: 1, fallback: 'none' };
  gateway = await startTestGateway({ decidedBy: 'configuration', config: { policy: { ...fixed, ...written } } });
  return gateway;
}

test.each(['beliefs-1', 'slots-2'])('weights are served as they were trained (%s)', async (name) => {
  const { client } = await start(name);
  expect(await decide(client, { model: 'orchestra', messages: user('Why?') })).toMatchObject({
    policy: { contract: name },
  });
});

test('an adapter says it for itself, whatever its base says', async () => {
  const adapter = writeModel(prefersB({ contract: 'beliefs-1' }));
  made.push(adapter);
  const { client } = await start('slots-2', { adapter: adapter.path });
  const found = await decide(client, { model: 'orchestra', messages: user('Why?') });
  expect(found).toMatchObject({ policy: { contract: 'beliefs-1' } });
});

test('another contract than theirs is refused, and one that nobody here knows', async () => {
  await expect(start('beliefs-1', { contract: 'slots-1' })).rejects.toThrow(
    /policy\.contract: .* speaks beliefs-1: leave it out/,
  );
  await expect(start('beliefs-9')).rejects.toThrow(/speaks beliefs-9, which this gateway does not know: .*beliefs-1/);
});
