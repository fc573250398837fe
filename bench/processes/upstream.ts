import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { framesPerStream, streamedText, streamedWords } from '../wire.ts';
import { sayListening } from './control.ts';

/** The model server that everybody is put in front of: ready bytes, streams at the pace that the argument says. */

const framePaceMs = Number(process.argv[2] ?? 0);

const envelope = { id: 'chatcmpl-bench', created: 1_700_000_000, model: 'bench', system_fingerprint: 'fp_bench' };
const usage = { prompt_tokens: 120, completion_tokens: framesPerStream, total_tokens: 120 + framesPerStream };

const whole = Buffer.from(
  JSON.stringify({
    ...envelope,
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: streamedText.slice(0, 700) }, finish_reason: 'stop' }],
    usage,
  }),
);

const chunk = (delta: object, finish_reason: string | null = null) => ({
  ...envelope,
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta, logprobs: null, finish_reason }],
});
const frames = [
  chunk({ role: 'assistant', content: '' }),
  ...streamedWords.map((content) => chunk({ content })),
  chunk({}, 'stop'),
  { ...envelope, object: 'chat.completion.chunk', choices: [], usage },
].map((value) => Buffer.from(`data: ${JSON.stringify(value)}\n\n`));

async function stream(response: ServerResponse): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  for (const frame of frames) {
    if (response.destroyed) return;
    response.write(frame);
    if (framePaceMs > 0) await sleep(framePaceMs);
  }
  response.end('data: [DONE]\n\n');
}

const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    const { stream: streamed } = JSON.parse(Buffer.concat(parts).toString('utf8')) as { stream?: boolean };
    if (streamed === true) void stream(response);
    else response.writeHead(200, { 'content-type': 'application/json', 'content-length': whole.length }).end(whole);
  });
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo; // A TCP listener always has one.
  sayListening(`http://127.0.0.1:${port}/v1`);
});
