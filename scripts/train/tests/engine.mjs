// Asks llama.cpp and the gateway's engine on it what torch is asked: token ids of texts and of segments, log-probabilities
// behind a prompt, grades of questions. One JSON in, one out.
import { readFileSync } from 'node:fs';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';
import { startLlamaEngine } from '../../../src/inference/llama-engine.ts';
import { modelTokens } from '../../../src/inference/tokens.ts';

const asked = JSON.parse(readFileSync(0, 'utf8'));
const { model: modelPath, adapter, texts, segments = [], prompt, greedy, top = 20, judge } = asked;
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 1, logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath, vocabOnly: prompt === undefined, gpuLayers: 0 });
const tokens = texts.map((text) => model.tokenize(text, false));
const served = segments.length === 0 ? [] : segments.map(modelTokens(model).ofSegments);
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
await model.dispose();
process.stdout.write(JSON.stringify({ tokens, served, probabilities, grades: judge && (await gradesOf(judge)) }));
process.exit(0);

/** `judge` holds prompt, questions and answers as segments. */
async function gradesOf(request) {
  const options = {
    modelPath,
    adapter: adapter && { path: adapter, scale: 1 },
    device: 'cpu',
    threads: 1,
    contextTokens: 1024,
    sequences: 1,
    prefillChunkTokens: 128,
  };
  const engine = await startLlamaEngine(options);
  const { logProbabilities } = await engine.judge({ ...request, signal: new AbortController().signal });
  await engine.close();
  return logProbabilities;
}
