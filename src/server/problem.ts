import type { Socket } from 'node:net';
import type { ConnectionError, FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { errorTable, OrchestraError, toOrchestraError } from '../errors.ts';

/** OpenAI's envelope: all four keys, always. `details` is ours and holds only what is safe to show. */
export interface ErrorEnvelope {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
    readonly details?: Readonly<Record<string, unknown>>;
  };
}

export function errorEnvelope(error: OrchestraError): ErrorEnvelope {
  const { type, wireCode } = errorTable[error.code];
  return {
    error: {
      message: error.quote === undefined ? error.message : `${error.message} ${error.quote}`,
      type,
      param: error.param ?? null,
      code: wireCode,
      ...(error.details ? { details: error.details } : {}),
    },
  };
}

/** Every failure leaves through here, whoever raised it. */
export function answerProblems(app: FastifyInstance): void {
  app.setErrorHandler<FastifyError>((thrown, request, reply) => sendProblem(thrown, request, reply));
  app.setNotFoundHandler((request) => {
    throw new OrchestraError('not_found', `There is no ${request.method} ${pathOf(request)}. See /docs.`);
  });
}

const pathOf = ({ url }: FastifyRequest) => (url.split('?')[0] ?? '').slice(0, 200);

export function sendProblem(thrown: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const error = fromFramework(thrown) ?? toOrchestraError(thrown);
  const { status, retryable } = errorTable[error.code];
  if (status >= 500) request.log.error(logLine(error, request), 'request failed');
  if (status === 429 || status === 503) {
    const waitMs = error.retryAfterMs ?? 1000;
    reply.header('retry-after', String(Math.ceil(waitMs / 1000)));
    reply.header('retry-after-ms', String(Math.ceil(waitMs)));
  }
  if (!retryable) reply.header('x-should-retry', 'false');
  reply.header('content-type', 'application/json; charset=utf-8');
  return reply.code(statusOverride(thrown) ?? status).send(JSON.stringify(errorEnvelope(error)));
}

/** What nobody foresaw, with its cause. A failed upstream is told by name and kind, since its cause may hold its host. */
const logLine = (error: OrchestraError, { headers }: FastifyRequest) => ({
  ...(error.code === 'internal' ? { err: error.cause } : { code: error.code, problem: error.message }),
  clientRequestId: headers['x-client-request-id']?.slice(0, 128),
});

/** Fastify's own errors, before a handler ran: their texts are about HTTP and safe to show. */
function fromFramework(thrown: unknown): OrchestraError | undefined {
  if (!isFrameworkError(thrown)) return undefined;
  const { statusCode } = thrown;
  const message = thrown.message.slice(0, 200);
  if (statusCode === 413) return new OrchestraError('payload_too_large', `${message}.`);
  if (statusCode === 415) return new OrchestraError('unsupported_media_type', `${message}.`);
  return new OrchestraError('invalid_request', `${message}.`);
}

/** A status that OpenAI has no word for, such as 414, stays as it is. */
const statusOverride = (thrown: unknown): number | undefined =>
  isFrameworkError(thrown) ? thrown.statusCode : undefined;

function isFrameworkError(thrown: unknown): thrown is { statusCode: number; message: string } {
  if (!(thrown instanceof Error) || thrown instanceof OrchestraError) return false;
  const { statusCode } = thrown as FastifyError; // Only read, and checked below.
  return typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500;
}

/** What is no HTTP never becomes a request; it still gets the envelope. */
export function answerBrokenHttp(error: ConnectionError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const status = brokenHttpStatuses[error.code ?? ''] ?? '400 Bad Request';
  const problem = new OrchestraError('invalid_request', 'The request is not valid HTTP.');
  const body = JSON.stringify(errorEnvelope(problem));
  const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n`;
  socket.end(`${head}\r\n${body}`);
}

const brokenHttpStatuses: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};
