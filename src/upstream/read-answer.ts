import type { Usage } from '../cost/usage.ts';
import { type ChatDelta, type ChatEnd, type ChatEvent, UpstreamFailure } from './chat.ts';
import { failureOfBody } from './failure.ts';
import { closingPauseMs, type Patience, patiently, readText } from './patience.ts';
import type { Response } from './post.ts';
import { readData } from './sse.ts';

/** One streamed answer being read, frame by frame; what a dialect has to know. */
export interface AnswerReader {
  /** The upstream said why it stopped: nothing more of the answer will come, at most the usage. */
  readonly finished: boolean;
  /** The last word of the protocol was read. */
  readonly ended: boolean;
  /** What the upstream will bill by what it said so far. */
  readonly usage: Usage | undefined;
  /** @throws UpstreamFailure for an error event and for what is not JSON. */
  read(data: string): ChatDelta[];
  /** @throws UpstreamFailure `cut_stream` when the answer is neither finished nor ended. */
  close(): { readonly rest: readonly ChatDelta[]; readonly end: ChatEnd };
}

/**
 * The events of an answer as they arrive, words that arrive together as one. Only what the answer itself says renews
 * patience; pings and comments do not.
 */
export async function* readAnswer(
  response: Response,
  answer: AnswerReader,
  patience: Patience,
): AsyncGenerator<ChatEvent, void> {
  try {
    for await (const together of readFrames(response, patience)) yield* joined(deltasIn(together, answer, patience));
  } catch (thrown) {
    const failure = failureOfBody(thrown, answer.usage);
    // A connection that dies between the last token and the closing word takes nothing away from the answer.
    if (!(answer.finished || answer.ended) || !(failure instanceof UpstreamFailure)) throw failure;
  }
  const { rest, end } = answer.close();
  yield* rest;
  yield end;
}

async function* readFrames({ body, headers }: Response, patience: Patience): AsyncGenerator<string[], void> {
  // A server that ignores `stream: true` gives its whole answer as if it had been the only frame.
  if (/json/i.test(headers.get('content-type') ?? '')) yield [await readText(body, patience)];
  else yield* readData(patiently(body, patience));
}

function* deltasIn(frames: readonly string[], answer: AnswerReader, patience: Patience): Generator<ChatDelta, void> {
  for (const data of frames) {
    const deltas = answer.ended ? [] : answer.read(data);
    if (answer.ended) patience.renew(closingPauseMs);
    else if (deltas.length > 0) patience.renew();
    yield* deltas;
  }
}

/** What came in together is told together: under load every step behind this one then has less to do. */
function* joined(deltas: Iterable<ChatDelta>): Generator<ChatDelta, void> {
  let last: ChatDelta | undefined;
  try {
    for (const delta of deltas) {
      const longer = last && joinedPair(last, delta);
      if (last && !longer) yield last;
      last = longer ?? delta;
    }
  } catch (thrown) {
    if (last) yield last;
    throw thrown;
  }
  if (last) yield last;
}

const joinedPair = (left: ChatDelta, right: ChatDelta): ChatDelta | undefined =>
  left.type !== 'tool_call' && right.type === left.type ? { ...left, text: left.text + right.text } : undefined;

/** A piece of text as an event, unless it is empty. */
export const spoken = (type: 'text' | 'reasoning', text: string): ChatDelta[] => (text === '' ? [] : [{ type, text }]);
