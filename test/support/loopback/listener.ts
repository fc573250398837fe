import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** One request as the loopback server saw it. */
export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Parsed JSON; `{}` for an empty body. */
  readonly body: Record<string, unknown>;
  /** The client's port: equal for requests that share a connection. */
  readonly port: number | undefined;
  /** 1 for the first request to this server, 2 for the next, … */
  readonly attempt: number;
  /** The client closed the connection before the answer was complete. */
  aborted: boolean;
  /** The whole answer was handed over. */
  finished: boolean;
  /** The server itself destroys the socket, as a dying upstream would. */
  cut(): void;
}

export interface Listener {
  /** `http://127.0.0.1:PORT`, no trailing slash. */
  readonly origin: string;
  readonly requests: readonly ReceivedRequest[];
  /** Resolves once the nth request (1-based) was left by its client; rejects after five seconds. */
  aborted(attempt: number): Promise<void>;
  close(): Promise<void>;
}

export type Answer = (request: ReceivedRequest, response: ServerResponse) => Promise<void>;

/** A real HTTP server on 127.0.0.1 and a free port that records what it receives. */
export async function listenOnLoopback(answer: Answer): Promise<Listener> {
  const requests: ReceivedRequest[] = [];
  const server = createServer((incoming, response) => {
    void receive(incoming, response).catch(() => response.destroy());
  });

  async function receive(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readJson(incoming);
    const path = (incoming.url ?? '/').split('?')[0] ?? '/';
    let cutByServer = false;
    const request: ReceivedRequest = {
      method: incoming.method ?? 'GET',
      path,
      headers: incoming.headers,
      body,
      port: incoming.socket.remotePort,
      attempt: requests.length + 1,
      aborted: false,
      finished: false,
      cut: () => {
        cutByServer = true;
        response.destroy();
      },
    };
    requests.push(request);
    response.on('finish', () => {
      request.finished = true;
    });
    response.on('close', () => {
      if (!response.writableFinished && !cutByServer) request.aborted = true;
    });
    await answer(request, response);
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address() as AddressInfo; // A TCP server that listens has an address object.
  return {
    origin: `http://127.0.0.1:${address.port}`,
    requests,
    aborted: (attempt) => waitUntil(() => requests[attempt - 1]?.aborted === true, `request ${attempt} to be left`),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Polls a condition; the time limit only turns a hang into a readable failure. */
export async function waitUntil(holds: () => boolean, what: string): Promise<void> {
  const stopAt = Date.now() + 5_000;
  while (!holds()) {
    if (Date.now() > stopAt) throw new Error(`waited too long for ${what}`);
    await sleep(2);
  }
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

async function readJson(incoming: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer); // A request without an encoding yields buffers.
  const text = Buffer.concat(chunks).toString('utf8');
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>); // Tests send objects.
}
