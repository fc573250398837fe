import { Socket } from 'node:net';
import { EngineFailure, type EngineInfo, type EngineOptions } from './engine.ts';
import { encodeFrame, frameDecoder } from './frames.ts';
import { type FromHost, hostDescriptor, type RequestBody, type ToHost, type WireFailure } from './protocol.ts';

export type Say = (message: FromHost) => void;

/** What a host process does, once told which weights to load. */
export interface HostService<Loaded extends LoadedService> {
  load(options: EngineOptions): Promise<Loaded>;
  /** Says everything that the request is owed; whatever it throws becomes the parent's failure. */
  answer(loaded: Loaded, id: number, body: RequestBody, signal: AbortSignal, say: Say): Promise<void>;
}

interface LoadedService {
  readonly info: EngineInfo;
  decodingForMs(): number;
}

/**
 * Serves one parent over an inherited descriptor and ends with it, so that no orphan keeps memory; a crash in here is an
 * error to the parent, not its end.
 */
export function serveParent<Loaded extends LoadedService>({ load, answer }: HostService<Loaded>): void {
  const socket = new Socket({ fd: hostDescriptor, readable: true, writable: true });
  const say = batchingWriter(socket);
  const running = new Map<number, AbortController>();
  let loaded: Loaded | undefined;

  async function start(options: EngineOptions): Promise<void> {
    try {
      loaded = await load(options);
      say({ type: 'ready', info: loaded.info });
    } catch (error) {
      say({ type: 'start-failed', failure: wireFailure(error) });
    }
  }

  async function serve(id: number, body: RequestBody): Promise<void> {
    const controller = new AbortController();
    running.set(id, controller);
    try {
      if (loaded === undefined) throw new EngineFailure('unavailable', 'the model is not loaded');
      await answer(loaded, id, body, controller.signal, say);
    } catch (error) {
      say({ type: 'failed', id, failure: wireFailure(error) });
    } finally {
      running.delete(id);
    }
  }

  function hear(message: ToHost): void {
    if (message.type === 'start') void start(message.options);
    else if (message.type === 'ping') say({ type: 'pong', decodingForMs: loaded?.decodingForMs() ?? 0 });
    else if (message.type === 'cancel') running.get(message.id)?.abort();
    else void serve(message.id, message);
  }

  const decode = frameDecoder();
  // The parent is the only writer of this connection.
  socket.on('data', (bytes) => (decode(bytes) as ToHost[]).forEach(hear));
  socket.on('error', () => process.exit());
  socket.on('close', () => process.exit());
  // An interrupt from the terminal reaches the whole group; the parent decides when work is over.
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', () => undefined);
}

/** Everything said in one turn of the event loop leaves in one frame: a write a token would cost far more. */
function batchingWriter(socket: Socket): Say {
  let outbox: FromHost[] = [];
  return (message) => {
    outbox.push(message);
    if (outbox.length > 1) return;
    setImmediate(() => {
      socket.write(encodeFrame(outbox));
      outbox = [];
    });
  };
}

function wireFailure(error: unknown): WireFailure {
  if (error instanceof EngineFailure) return { kind: error.kind, message: error.message };
  if (error instanceof Error && error.name === 'AbortError') return { kind: 'cancelled', message: error.message };
  // Only stderr says what it was; the parent keeps its tail.
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  return { kind: 'crashed', message: 'the inference host met an unexpected error' };
}
