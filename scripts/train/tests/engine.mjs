// Asks llama.cpp what torch is asked: token ids of texts, and log-probabilities behind a prompt. One JSON in, one out.
import { readFileSync } from 'node:fs';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';

const { model: modelPath, adapter, texts, prompt, greedy, top = 20 } = JSON.parse(readFileSync(0, 'utf8'));
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 1, logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath, vocabOnly: prompt === undefined, gpuLayers: 0 });
const tokens = texts.map((text) => model.tokenize(text, false));
const probabilities = [];
if (prompt !== undefined) {
  const lora = adapter === undefined ? undefined : { adapters: [{ filePath: adapter }] };
  const context = await model.createContext({ contextSize: 1024, sequences: 1, threads: 1, lora });
  const sequence = context.getSequence();
  let ids = [...prompt];
  let added = ids;
  for (let step = 0; step < greedy; step++) {
    const input = added.map((id, at) => (at < added.length - 1 ? id : [id, { generateNext: { probabilities: true } }]));
    const outputs = await sequence.controlledEvaluate(input);
    const next = [...outputs.at(-1).next.probabilities];
    probabilities.push(next.slice(0, top));
    added = [next[0][0]];
    ids = [...ids, ...added];
  }
}
process.stdout.write(JSON.stringify({ tokens, probabilities }));
process.exit(0);
