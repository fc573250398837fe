import { createHash } from 'node:crypto';
import { startTestGateway } from '../support/gateway.ts';
import type { ReceivedRequest } from '../support/loopback/listener.ts';
import { type OpenAiReply, replies } from '../support/loopback/openai-replies.ts';

/** A gateway for clients in other languages: says where it listens in one line of JSON and ends with its input. */

const key = 'sk-client';
const sha256 = createHash('sha256').update(key).digest('hex');
const usage = { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500 };

/** What the last message asks for; everything else is a greeting of fixed price. */
const byRequest: Readonly<Record<string, OpenAiReply>> = {
  'be busy': replies.rateLimited({ 'retry-after': '7' }),
  'be broken': replies.serverError(500),
  'be picky': replies.invalid('Invalid value for temperature.', 'temperature'),
  'talk on': { ...replies.says(...Array.from({ length: 400 }, (_, index) => `word${index} `)), chunkDelayMs: 20 },
};

function answer({ body }: ReceivedRequest): OpenAiReply {
  const messages = (body['messages'] ?? []) as { role: string; content: string }[]; // Checked by the gateway.
  const last = messages.at(-1);
  if (last?.role === 'tool') return { ...replies.says(`The tool says ${last.content}.`), usage };
  if (Array.isArray(body['tools'])) {
    return { ...replies.calls({ id: 'call_1', name: 'temperature', arguments: '{"city":"Oslo"}' }), usage };
  }
  return byRequest[last?.content ?? ''] ?? { ...replies.says('Grüße', ' from', ' loopback 🌍.'), usage };
}

const gateway = await startTestGateway({
  openAi: answer,
  config: { server: { auth: 'keys', keys: [{ name: 'client', sha256 }] } },
});
console.log(JSON.stringify({ base_url: `${gateway.url}/v1`, api_key: key }));
process.stdin.resume().once('end', () => {
  void gateway.close();
});
