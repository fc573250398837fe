import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { getLlama, type LlamaContextSequence } from 'node-llama-cpp';
import type { ChatMessage } from '../../src/contract/chat.ts';
import { chatTemplate } from '../../src/inference/chat-template.ts';
import { modelTokens } from '../../src/inference/tokens.ts';

/** node-llama-cpp with nothing of ours but template and tokens: whoever comes takes a free sequence and loops over it. */
const [modelPath = '', sequences = '1', contextTokens = '1024', port = '0'] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 1 });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ sequences: Number(sequences), contextSize: Number(contextTokens) });
const tokens = modelTokens(model);
const template = chatTemplate(model, tokens);
const free = Array.from({ length: Number(sequences) }, () => context.getSequence());
const waiting: ((sequence: LlamaContextSequence) => void)[] = [];

async function complete(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = '';
  for await (const bytes of request) text += String(bytes);
  // The bench is the only client.
  const { messages, max_tokens: maxTokens } = JSON.parse(text) as { messages: ChatMessage[]; max_tokens: number };
  const prompt = template.prompt(messages, []);
  const sequence = free.shift() ?? (await new Promise<LlamaContextSequence>((resolve) => waiting.push(resolve)));
  await sequence.adaptStateToTokens(prompt.slice(0, -1), false);
  let written = 0;
  for await (const token of sequence.evaluate(prompt.slice(sequence.nextTokenIndex), { temperature: 0 })) {
    response.write(`data: {"content":${JSON.stringify(model.detokenize([token]))}}\n\n`);
    if (++written >= maxTokens) break;
  }
  const next = waiting.shift();
  if (next) next(sequence);
  else free.push(sequence);
  response.end();
}

createServer((request, response) => {
  if (request.url === '/health') response.end('ok');
  else void complete(request, response);
}).listen(Number(port), '127.0.0.1');
