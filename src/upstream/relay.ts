import { type Dispatcher, request } from 'undici';
import { type Breaker, type Outcome, outcomeOf } from './breaker.ts';
import type { CallTime } from './call-time.ts';
import { secretsOf } from './clean-words.ts';
import { dialectFor, type OpenAiDialect } from './dialect.ts';
import { createDispatcher, requestHeaders } from './dispatcher.ts';
import { type Patience, type PatienceLimits, startPatience } from './patience.ts';
import {
  type RelayAnswer,
  type RelayRejection,
  readWhole,
  requireType,
  type SafeHeaders,
  safeHeaders,
} from './relay-answer.ts';
import { asksForUsage, type JsonObject, type RelayPath, relayBody } from './relay-request.ts';
import { type RelayEvent, relayEvents } from './relay-stream.ts';

export interface RelayTimeouts {
  /** Streams: until the first token. */
  readonly firstTokenTimeoutMs: number;
  readonly betweenTokensTimeoutMs: number;
  /** Answers that are not streamed: until their last byte. */
  readonly answerTimeoutMs: number;
}

export interface RelayOptions {
  readonly name: string;
  readonly baseUrl: string;
  /** Empty for servers that want none. The client's own key never gets here. */
  readonly apiKey: string;
  readonly timeouts: RelayTimeouts;
  readonly dialect?: OpenAiDialect;
  readonly dispatcher?: Dispatcher;
  /** The same object as the experts of this upstream use. */
  readonly breaker?: Breaker;
}

export interface RelayRequest {
  readonly path: RelayPath;
  /** The upstream's own name of the model. */
  readonly model: string;
  /** As the client sent it; its `stream` decides the kind of answer. */
  readonly body: JsonObject;
  /** Owner of a private request, whose traces in a model's cache nobody else may use; for models of our own. */
  readonly privateTo?: string | undefined;
  /** Runs while the upstream is at work. */
  readonly callTime?: CallTime | undefined;
  /** Fires when the client leaves. */
  readonly signal: AbortSignal;
}

export interface RelayStream {
  readonly kind: 'stream';
  readonly headers: SafeHeaders;
  /** Read as fast as they are asked for. Iterate them or fire the signal: until then the upstream is kept waiting. */
  readonly events: AsyncIterable<RelayEvent>;
}

export type RelayResponse = RelayAnswer | RelayStream | RelayRejection;

/** Passes OpenAI-compatible requests through to one upstream. No retries: clients have their own, and see the status. */
export interface Relay {
  readonly name: string;
  /** @throws UpstreamFailure for everything that is the upstream's fault or ours, AbortError when cancelled. */
  forward(request: RelayRequest): Promise<RelayResponse>;
}

export function createRelay(options: RelayOptions): Relay {
  const dispatcher = options.dispatcher ?? createDispatcher();
  const dialect = options.dialect ?? dialectFor(options.baseUrl);
  const base = options.baseUrl.replace(/\/+$/, '');
  const secrets = secretsOf(base, options.apiKey);
  const headers = requestHeaders(options.apiKey);

  function post({ path, model, body }: RelayRequest, patience: Patience) {
    const sent = relayBody(path, model, body, dialect);
    // Inside a promise, so that what `request` throws at once is a failure like any other.
    const started = Promise.resolve().then(() =>
      request(base + path, { method: 'POST', headers, body: sent, dispatcher, signal: patience.signal }),
    );
    return patience.during(started);
  }

  async function forward(relayed: RelayRequest): Promise<RelayResponse> {
    const report = options.breaker?.begin() ?? ignore;
    const patience = startPatience(patienceLimits(relayed, options.timeouts));
    try {
      const response = await post(relayed, patience);
      if (relayed.body['stream'] === true && response.statusCode === 200) {
        requireType(response, /event-stream/);
        const events = relayEvents(response.body, patience, asksForUsage(relayed.body));
        return { kind: 'stream', headers: safeHeaders(response.headers), events: watched(events, patience, report) };
      }
      const answer = await readWhole(response, patience, secrets);
      report(answer.kind === 'answer' ? 'success' : 'neutral');
      patience.end();
      return answer;
    } catch (thrown) {
      report(outcomeOf(thrown));
      patience.end();
      throw thrown;
    }
  }

  return { name: options.name, forward };
}

type Report = (outcome: Outcome) => void;
const ignore: Report = () => undefined;

function patienceLimits({ body, signal, callTime }: RelayRequest, timeouts: RelayTimeouts): PatienceLimits {
  const { firstTokenTimeoutMs, betweenTokensTimeoutMs, answerTimeoutMs } = timeouts;
  return body['stream'] === true
    ? { signal, callTime, firstTokenTimeoutMs, betweenTokensTimeoutMs }
    : { signal, callTime, firstTokenTimeoutMs: answerTimeoutMs, betweenTokensTimeoutMs: answerTimeoutMs };
}

/** Reports how a stream ended, and lets go of the upstream when it ends, fails or is no longer read. */
async function* watched(
  events: AsyncIterable<RelayEvent>,
  patience: Patience,
  report: Report,
): AsyncGenerator<RelayEvent, void> {
  try {
    yield* events;
    report('success');
  } catch (thrown) {
    report(outcomeOf(thrown));
    throw thrown;
  } finally {
    report('neutral');
    patience.end();
  }
}
