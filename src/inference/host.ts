import { Socket } from 'node:net';
import { EngineFailure, type EngineOptions } from './engine.ts';
import { encodeFrame, frameDecoder } from './frames.ts';
import { type LlamaEngine, startLlamaEngine } from './llama-engine.ts';
import { type FromHost, hostDescriptor, type RequestBody, type ToHost, type WireFailure } from './protocol.ts';

/**
 * The process that owns llama.cpp. It serves one parent over an inherited descriptor and ends with it, so no orphan
 * keeps memory; a crash in here is an error to the parent, not its end.
 */

const socket = new Socket({ fd: hostDescriptor, readable: true, writable: true });
const running = new Map<number, AbortController>();
let engine: LlamaEngine | undefined;
let outbox: FromHost[] = [];

/** Everything said in one turn of the event loop leaves in one frame: a write a token would cost far more. */
function say(message: FromHost): void {
  outbox.push(message);
  if (outbox.length > 1) return;
  setImmediate(() => {
    socket.write(encodeFrame(outbox));
    outbox = [];
  });
}

function hear(message: ToHost): void {
  switch (message.type) {
    case 'start':
      void start(message.options);
      return;
    case 'ping':
      say({ type: 'pong', decodingForMs: engine?.decodingForMs() ?? 0 });
      return;
    case 'cancel':
      running.get(message.id)?.abort();
      return;
    default:
      void serve(message.id, message);
  }
}

async function start(options: EngineOptions): Promise<void> {
  try {
    engine = await startLlamaEngine(options);
    say({ type: 'ready', info: engine.info });
  } catch (error) {
    say({ type: 'start-failed', failure: wireFailure(error) });
  }
}

async function serve(id: number, body: RequestBody): Promise<void> {
  const controller = new AbortController();
  running.set(id, controller);
  try {
    if (engine === undefined) throw new EngineFailure('unavailable', 'the model is not loaded');
    await answer(engine, id, body, controller.signal);
  } catch (error) {
    say({ type: 'failed', id, failure: wireFailure(error) });
  } finally {
    running.delete(id);
  }
}

async function answer(ready: LlamaEngine, id: number, body: RequestBody, signal: AbortSignal): Promise<void> {
  switch (body.type) {
    case 'score':
      say({ type: 'scored', id, result: await writable(ready.score({ ...body.request, signal })) });
      return;
    case 'count':
      say({ type: 'counted', id, tokens: await ready.countTokens(body.text) });
      return;
    case 'generate':
      for await (const event of ready.generate({ ...body.request, signal })) say({ type: 'generated', id, event });
  }
}

/** Results are read-only; the wire's types are not. */
async function writable(result: ReturnType<LlamaEngine['score']>) {
  const { logProbabilities, ...others } = await result;
  return { ...others, logProbabilities: [...logProbabilities] };
}

function wireFailure(error: unknown): WireFailure {
  if (error instanceof EngineFailure) return { kind: error.kind, message: error.message };
  if (error instanceof Error && error.name === 'AbortError') return { kind: 'cancelled', message: error.message };
  // Only stderr says what it was; the parent keeps its tail.
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  return { kind: 'crashed', message: 'the inference host met an unexpected error' };
}

const decode = frameDecoder();
// The parent is the only writer of this connection.
socket.on('data', (bytes) => (decode(bytes) as ToHost[]).forEach(hear));
socket.on('error', () => process.exit());
socket.on('close', () => process.exit());
// An interrupt from the terminal reaches the whole group; the parent decides when work is over.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
