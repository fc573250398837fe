import { findModel } from '../inference/downloads/catalog.ts';
import { DownloadFailure } from '../inference/downloads/failure.ts';
import { type ModelCommandContext, pullWithWords } from './models.ts';

export const defaultModel = 'smollm2-135m-instruct';

/** A first start must not hang on a slow line: what is not here by then is left for `models pull`. */
const patienceMs = 40_000;

/** Fetches the small local model once; without it the gateway starts all the same, and says so. */
export async function fetchDefaultModel(context: ModelCommandContext): Promise<void> {
  const { present } = await findModel(defaultModel, context.modelsFolder());
  if (present) return;
  context.write('First start: fetching a small local model, so that something can answer without any key.');
  const timeout = AbortSignal.timeout(patienceMs);
  try {
    await pullWithWords(defaultModel, false, { ...context, signal: AbortSignal.any([context.signal, timeout]) });
  } catch (thrown) {
    if (context.signal.aborted || !(timeout.aborted || thrown instanceof DownloadFailure)) throw thrown;
    const reason = timeout.aborted ? 'it takes too long' : (thrown as DownloadFailure).message; // Narrowed above.
    context.write(`Going on without it (${reason}). Later: npm run orchestra -- models pull ${defaultModel}`);
  }
}
