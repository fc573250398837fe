import { EngineFailure, type InferenceEngine } from '../inference/engine.ts';

/** Reads the policy's adapter anew while it serves, and says in a sentence what came of it. */
export async function reloadAdapter(engine: InferenceEngine | undefined): Promise<string> {
  const adapter = engine?.info.adapter;
  if (!engine || !adapter) return 'policy: it has no adapter that could be read anew';
  try {
    const { weightsHash } = await engine.useAdapter(adapter);
    return `policy: ${adapter.path} was read anew; the weights are now ${weightsHash.slice(0, 12)}`;
  } catch (error) {
    if (!(error instanceof EngineFailure)) throw error;
    return `policy: it stays as it was, because ${error.message}`;
  }
}
