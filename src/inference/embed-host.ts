import { throwIfCancelled } from './cancellation.ts';
import { EngineFailure } from './engine.ts';
import { type LlamaEmbedder, loadLlamaEmbedder } from './llama-embedder.ts';
import type { RequestBody } from './protocol.ts';
import { type Say, serveParent } from './serve-parent.ts';

/** The process that owns an embedding model; `serveParent` says how it lives and dies. */
serveParent({ load: loadLlamaEmbedder, answer });

async function answer(embedder: LlamaEmbedder, id: number, body: RequestBody, signal: AbortSignal, say: Say) {
  if (body.type === 'embed') {
    const head = embedder.headOf(body.text);
    if (head.isCut && body.refuseLong) {
      const message = `it is longer than the ${embedder.info.contextTokens} tokens that this model reads`;
      throw new EngineFailure('context_full', message);
    }
    const { buffer } = await embedder.embed(head);
    say({
      type: 'embedded',
      id,
      vector: Buffer.from(buffer).toString('base64'),
      tokens: head.readTokens,
      isCut: head.isCut,
    });
  } else if (body.type === 'rank') {
    say({ type: 'ranked', id, scores: await oneByOne(body.texts, signal, await embedder.ranking(body.query)) });
  } else {
    throw new Error('this host only embeds and ranks');
  }
}

async function oneByOne<Result>(
  texts: readonly string[],
  signal: AbortSignal,
  work: (text: string) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (const text of texts) {
    throwIfCancelled(signal);
    results.push(await work(text));
  }
  return results;
}
