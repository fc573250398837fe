import { throwIfCancelled } from './cancellation.ts';
import { type LlamaEmbedder, loadLlamaEmbedder } from './llama-embedder.ts';
import type { RequestBody } from './protocol.ts';
import { type Say, serveParent } from './serve-parent.ts';

/** The process that owns an embedding model; `serveParent` says how it lives and dies. */
serveParent({ load: loadLlamaEmbedder, answer });

async function answer(embedder: LlamaEmbedder, id: number, body: RequestBody, signal: AbortSignal, say: Say) {
  if (body.type !== 'embed') throw new Error('this host only embeds');
  const vectors: string[] = [];
  for (const text of body.texts) {
    throwIfCancelled(signal);
    const { buffer } = await embedder.embed(text);
    vectors.push(Buffer.from(buffer).toString('base64'));
  }
  say({ type: 'embedded', id, vectors });
}
