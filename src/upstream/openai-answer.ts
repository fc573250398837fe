import type { Usage } from '../cost/usage.ts';
import { agedWrites, type CacheMark } from './cache-marks.ts';
import type { ChatDelta } from './chat.ts';
import { failureInAnswer, failureOf } from './failure.ts';
import { finishReasonFrom, type OpenAiDelta, readChunk } from './openai-chunk.ts';
import { type AnswerReader, spoken } from './read-answer.ts';
import { createToolCallDeltas } from './tool-call-deltas.ts';
import { createTextJoiner } from './well-formed.ts';
import { usageFromWire } from './wire-usage.ts';

/** @param mark what the request asked to be kept. */
export function createOpenAiAnswer(mark: CacheMark = 'none'): AnswerReader {
  const text = createTextJoiner();
  const reasoning = createTextJoiner();
  const calls = createToolCallDeltas();
  let finishWord: string | undefined;
  let usage: Usage | undefined;
  let ended = false;

  function deltasOf(delta: OpenAiDelta | undefined): ChatDelta[] {
    if (!delta) return [];
    return [
      // Some servers fill both names with the same words.
      ...spoken('reasoning', reasoning.push(delta.reasoning_content || delta.reasoning || '')),
      ...spoken('text', text.push(delta.content || delta.refusal || '')),
      ...(delta.tool_calls ?? []).flatMap((piece) => calls.push(piece)),
    ];
  }

  return {
    get finished() {
      return finishWord !== undefined;
    },
    get usage() {
      return usage;
    },
    get ended() {
      return ended;
    },
    read(data) {
      if (data.startsWith('[DONE]')) {
        ended = true;
        return [];
      }
      const chunk = readChunk(data);
      if (!chunk) throw failureOf('malformed', usage);
      // Cumulative usage on every chunk is the same count growing: the last one stands.
      const reported = usageFromWire(chunk.usage);
      if (reported) usage = agedWrites(reported, mark);
      if (chunk.error !== undefined && chunk.error !== null) throw failureInAnswer(chunk.error, usage);
      const choice = chunk.choices.find(({ index }) => index === 0);
      if (!choice) return [];
      finishWord = choice.finish_reason || finishWord;
      if (finishWord === 'error') throw failureOf('server_error', usage);
      return deltasOf(choice.delta ?? choice.message);
    },
    close() {
      if (finishWord === undefined && !ended) throw failureOf('cut_stream', usage);
      return {
        rest: [...spoken('reasoning', reasoning.flush()), ...spoken('text', text.flush()), ...calls.close()],
        end: { type: 'end', finishReason: finishReasonFrom(finishWord, calls), usage },
      };
    },
  };
}
