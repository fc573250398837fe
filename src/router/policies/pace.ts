import { performance } from 'node:perf_hooks';
import type { Segment } from '../../contract/segment.ts';
import { EngineFailure, type InferenceEngine, type JudgeRequest } from '../../inference/engine.ts';

/** Share of the newest measurement in what is remembered. */
const learning = 0.3;
/** What a refusal leaves of the pace: one that was learnt in a bad moment is tried again before long. */
const forgetting = 0.9;

/**
 * The engine's judge, refusing as `busy` at once what it could not do by its deadline: nobody waits for a decision that
 * `estimate` will make in the end. It goes by how long the questions before took for their length.
 */
export function paced(engine: Pick<InferenceEngine, 'judge'>): Pick<InferenceEngine, 'judge'> {
  let msPerCharacter = 0;
  const learn = (measured: number) => {
    msPerCharacter = msPerCharacter === 0 ? measured : msPerCharacter + learning * (measured - msPerCharacter);
  };
  return {
    judge: async (request) => {
      const length = lengthOf(request);
      const { deadlineMs = Number.POSITIVE_INFINITY } = request;
      if (length * msPerCharacter > deadlineMs) {
        msPerCharacter *= forgetting;
        throw new EngineFailure('busy', 'the questions would not be answered in time');
      }
      const startedAtMs = performance.now();
      const measured = () => (performance.now() - startedAtMs) / length;
      try {
        const result = await engine.judge(request);
        learn(measured());
        return result;
      } catch (error) {
        // Given up half done: it would have taken longer than this.
        if (!request.signal.aborted) learn(Math.max(msPerCharacter, measured()));
        throw error;
      }
    },
  };
}

const lengthOf = ({ prompt, questions }: JudgeRequest): number =>
  [prompt, ...questions].reduce((total, segments) => total + textLength(segments), 1);

const textLength = (segments: readonly Segment[]): number =>
  segments.reduce((total, { text }) => total + text.length, 0);
