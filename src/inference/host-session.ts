import { EngineFailure, type EngineInfo, type EngineOptions } from './engine.ts';
import { type HostEnd, hostArguments, spawnHost } from './host-process.ts';
import type { FromHost, ToHost } from './protocol.ts';

/** What the host is, how long the gateway waits for it, and how patiently it restarts one. */
export interface HostSettings {
  /** Of Node.js. */
  readonly arguments: readonly string[];
  readonly startLimitMs: number;
  readonly heartbeatMs: number;
  /** A host that leaves so many heartbeats in a row unanswered is hung. */
  readonly mostUnanswered: number;
  /** One chunk of prompt or one token that takes longer is a hung device: the event loop beside it still answers. */
  readonly decodeLimitMs: number;
  readonly firstRestartMs: number;
  readonly longestRestartMs: number;
}

export const hostSettings = (): HostSettings => ({
  arguments: hostArguments(),
  startLimitMs: 600_000,
  heartbeatMs: 2_000,
  mostUnanswered: 10,
  decodeLimitMs: 120_000,
  firstRestartMs: 250,
  longestRestartMs: 30_000,
});

/** A host that has loaded its model. */
export interface HostSession {
  readonly info: EngineInfo;
  send(message: ToHost): void;
  kill(reason: string): void;
}

export interface SessionEvents {
  message(message: FromHost): void;
  /** Once, and only after the session was opened. */
  exit(end: HostEnd): void;
}

/** Starts a host and watches over it. Rejects with an `unavailable` EngineFailure when it does not get ready. */
export function openSession(
  options: EngineOptions,
  settings: HostSettings,
  events: SessionEvents,
): Promise<HostSession> {
  return new Promise((resolve, reject) => {
    let ready = false;
    let failure: EngineFailure | undefined;
    let unanswered = 0;
    const host = spawnHost(settings.arguments, options.environment ?? {}, { message: hear, exit });
    const heartbeat = setInterval(beat, settings.heartbeatMs);
    const startLimit = setTimeout(() => host.kill('it took too long to start'), settings.startLimitMs);
    host.send({ type: 'start', options });

    function beat(): void {
      // Until then the host may be busy importing; the start has a limit of its own.
      if (!ready) return;
      // Counted, not timed: if the gateway itself slept, the answers are waiting to be read.
      if (++unanswered > settings.mostUnanswered) host.kill('it stopped answering');
      else host.send({ type: 'ping' });
    }

    function hear(message: FromHost): void {
      unanswered = 0;
      if (message.type === 'pong') {
        if (message.decodingForMs > settings.decodeLimitMs) host.kill('a decode did not come to an end');
      } else if (message.type === 'ready') {
        ready = true;
        clearTimeout(startLimit);
        resolve({ info: message.info, send: host.send, kill: host.kill });
      } else if (message.type === 'start-failed') {
        failure = new EngineFailure('unavailable', message.failure.message);
        host.kill('it could not load the model');
      } else {
        events.message(message);
      }
    }

    function exit(end: HostEnd): void {
      clearInterval(heartbeat);
      clearTimeout(startLimit);
      if (ready) events.exit(end);
      else reject(failure ?? didNotStart(end));
    }
  });
}

const didNotStart = ({ how, complaints }: HostEnd): EngineFailure =>
  new EngineFailure('unavailable', `the inference host did not start: ${how}`, complaints);
