import { strictEqual } from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { startOpenAiServer } from '../support/loopback/openai-server.ts';

/** Starts `dist/main.js serve` as an operator would, asks it one question and stops it with SIGTERM. */

const home = mkdtempSync(join(tmpdir(), 'orchestra-build-'));
const upstream = await startOpenAiServer();
const configPath = join(home, 'orchestra.yaml');
// YAML reads JSON.
writeFileSync(
  configPath,
  JSON.stringify({
    server: { port: 0 },
    upstreams: { loopback: { kind: 'openai', base_url: upstream.url, api_key: 'sk-loopback' } },
    slots: {
      'answer-1': { role: 'answer', upstream: 'loopback', model: 'm', quality: 'any', price: { input: 1, output: 4 } },
    },
  }),
);
const { PATH, HOME } = process.env;
const server = spawn(process.execPath, ['dist/main.js', 'serve', '--config', configPath], {
  env: { PATH, HOME, ORCHESTRA_HOME: home, ORCHESTRA_MODELS: home },
  stdio: ['ignore', 'pipe', 'inherit'],
});
try {
  const client = new OpenAI({ baseURL: `${await address(server)}/v1`, apiKey: 'none', maxRetries: 0 });
  const answer = await client.chat.completions.create({
    model: 'orchestra',
    messages: [{ role: 'user', content: 'Hello!' }],
  });
  strictEqual(answer.choices[0]?.message.content, 'Hello from loopback.');
  const exited = once(server, 'exit');
  server.kill('SIGTERM');
  strictEqual((await exited)[0], 0, 'the gateway stops cleanly');
  console.log(`dist/main.js on Node ${process.version}: answered and stopped cleanly`);
} finally {
  server.kill('SIGKILL');
  await upstream.close();
  rmSync(home, { recursive: true, force: true });
}

/** From the greeting. */
async function address({ stdout }: ChildProcess): Promise<string> {
  let text = '';
  for await (const part of stdout ?? []) {
    text += String(part);
    const found = /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0];
    if (found) return found;
  }
  throw new Error(`the gateway ended before it was ready: ${text}`);
}
