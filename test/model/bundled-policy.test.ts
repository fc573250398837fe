import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { findModel } from '../../src/inference/downloads/catalog.ts';
import { decide, reportOf } from '../end-to-end/report.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { skipsSmolLm2, smolLm2Path } from '../support/gguf/smollm2.ts';
import { user } from '../support/http.ts';
import { eventually, hostsOf, onlyHost } from './host-processes.ts';

/** The shipped adapter on its real base, as somebody gets it who configures no policy. */
const modelsFolder = mkdtempSync(join(tmpdir(), 'orchestra-bundled-'));
let gateway: TestGateway | undefined;
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
  rmSync(modelsFolder, { recursive: true, force: true });
  expect(hostsOf(process.pid)).toEqual([]);
});

const request = { model: 'orchestra', messages: [{ role: 'user' as const, content: 'Solve x² − 5x + 6 = 0 for x.' }] };

async function start(announced: string[] = []): Promise<TestGateway> {
  gateway = await startTestGateway({
    decidedBy: 'configuration',
    modelsFolder,
    recheckMs: 50,
    announce: (note) => announced.push(note),
  });
  return gateway;
}

const bringBase = async () => {
  const { base } = await findModel('card-reader', modelsFolder);
  copyFileSync(smolLm2Path, base?.path ?? '');
};

describe.skipIf(skipsSmolLm2)('the bundled policy', () => {
  test('takes over from estimate once its base has come, says so, and trusts a strong card more', async () => {
    const announced: string[] = [];
    const { client, notes, url } = await start(announced);
    expect(notes[0]).toMatch(/^policy: estimate, until the base of card-reader is here: run `.* pull card-reader`$/);
    expect(await decide(client, request)).toMatchObject({ decided_by: 'estimate', warnings: [] });
    await bringBase();
    const decision = await eventually(async () => {
      const made = await decide(client, request);
      if (made['decided_by'] === 'estimate') throw new Error('not yet');
      return made;
    });
    expect(decision).toMatchObject({ decided_by: 'card-reader', warnings: [] });
    const chanceOf = (id: string) =>
      decision.candidates.find(({ slot, role }) => slot === id && role === 'answer')?.p_right ?? Number.NaN;
    expect(chanceOf('answer-1')).toBeGreaterThan(chanceOf('answer-2'));
    expect(announced).toEqual([expect.stringMatching(/^policy: card-reader runs on cpu.*backend: estimate/)]);
    expect(notes[0]).toBe(announced[0]);
    const page = await fetch(url, { headers: { accept: 'text/html' } });
    expect(await page.text()).toContain('card-reader');
    const report = reportOf(await client.chat.completions.create(request));
    expect(report.policy).toMatchObject({ name: 'card-reader', contract: 'beliefs-1' });
  });

  test('leaves a decision that its time does not cover, or that its process does not survive, to estimate', async () => {
    const announced: string[] = [];
    mkdirSync(modelsFolder, { recursive: true });
    await bringBase();
    const { client } = await start(announced);
    await eventually(async () => {
      if (announced.length === 0) throw new Error('not yet');
    });
    const long = { ...request, messages: user('Prove every step of this. '.repeat(800)) };
    const hurried = await decide(client, { ...long, preferences: { max_latency_ms: 3000 } });
    expect(hurried).toMatchObject({ decided_by: 'estimate', warnings: [{ code: 'policy_fallback' }] });
    expect(JSON.stringify(hurried.warnings)).toContain('not done in time');
    const host = onlyHost();
    process.kill(host, 'SIGSTOP');
    const asking = decide(client, request);
    await sleep(200);
    process.kill(host, 'SIGKILL');
    expect(await asking).toMatchObject({ decided_by: 'estimate', warnings: [{ code: 'policy_fallback' }] });
  });
});

test.skipIf(skipsSmolLm2)('an adapter of your own says its contract, whatever its base was known for', async () => {
  mkdirSync(modelsFolder, { recursive: true });
  await bringBase();
  const policy = {
    backend: 'llama',
    model: 'smollm2-135m-instruct',
    adapter: 'models/card-reader.lora.gguf',
    contract: 'beliefs-1',
    context: 4096,
    threads: 1,
    device: 'cpu',
  };
  gateway = await startTestGateway({ decidedBy: 'configuration', modelsFolder, config: { policy } });
  expect(gateway.notes[0]).toBe('policy: smollm2-135m-instruct runs on cpu, with models/card-reader.lora.gguf');
  expect(await decide(gateway.client, request)).toMatchObject({
    policy: { contract: 'beliefs-1' },
    decided_by: 'smollm2-135m-instruct',
  });
});
