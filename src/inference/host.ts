import { type LlamaEngine, startLlamaEngine } from './llama-engine.ts';
import type { RequestBody } from './protocol.ts';
import { type Say, serveParent } from './serve-parent.ts';

/** The process that owns a generating model; `serveParent` says how it lives and dies. */
serveParent({ load: startLlamaEngine, answer });

async function answer(engine: LlamaEngine, id: number, body: RequestBody, signal: AbortSignal, say: Say) {
  switch (body.type) {
    case 'score':
      say({ type: 'scored', id, result: await writable(engine.score({ ...body.request, signal })) });
      return;
    case 'judge': {
      const { logProbabilities, usage } = await engine.judge({ ...body.request, signal });
      say({ type: 'judged', id, result: { logProbabilities: logProbabilities.map((answers) => [...answers]), usage } });
      return;
    }
    case 'count':
      say({ type: 'counted', id, tokens: await engine.countTokens(body.text) });
      return;
    case 'adapt':
      say({ type: 'adapted', id, info: await engine.useAdapter(body.adapter) });
      return;
    case 'generate':
      for await (const event of engine.generate({ ...body.request, signal })) say({ type: 'generated', id, event });
      return;
    case 'embed':
    case 'rank':
      throw new Error('this host embeds nothing');
  }
}

/** Results are read-only; the wire's types are not. */
async function writable(result: ReturnType<LlamaEngine['score']>) {
  const { logProbabilities, ...others } = await result;
  return { ...others, logProbabilities: [...logProbabilities] };
}
