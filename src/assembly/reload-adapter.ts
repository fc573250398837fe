import { EngineFailure, type InferenceEngine } from '../inference/engine.ts';
import { trainedContract } from '../inference/gguf-file.ts';

/**
 * Reads the policy's adapter anew while it serves, and says in a sentence what came of it.
 * @param served Name of the contract that the policy renders its prompts by.
 */
export async function reloadAdapter(engine: InferenceEngine | undefined, served: string): Promise<string> {
  const adapter = engine?.info.adapter;
  if (!engine || !adapter) return 'policy: it has no adapter that could be read anew';
  try {
    const speaks = (await trainedContract(adapter.path)).name;
    if (speaks !== undefined && speaks !== served) {
      return `policy: it stays as it was, because ${adapter.path} speaks ${speaks} now, while ${served} is served: start anew`;
    }
    const { weightsHash } = await engine.useAdapter(adapter);
    return `policy: ${adapter.path} was read anew; the weights are now ${weightsHash.slice(0, 12)}`;
  } catch (error) {
    if (!(error instanceof EngineFailure)) throw error;
    return `policy: it stays as it was, because ${error.message}`;
  }
}
