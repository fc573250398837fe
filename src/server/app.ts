import fastify, { type FastifyInstance, LogController } from 'fastify';
import { OrchestraError } from '../errors.ts';
import { authenticate } from './auth.ts';
import { acceptJsonBodies } from './body.ts';
import { chatRoutes } from './chat.ts';
import { allowCrossOrigin } from './cors.ts';
import { describeApi } from './docs.ts';
import { frontRoutes } from './front.ts';
import { createAnswerOnce } from './idempotency.ts';
import { InFlight } from './in-flight.ts';
import { collectMethods } from './methods.ts';
import { modelRoutes } from './models.ts';
import { orchestraRoutes } from './orchestra.ts';
import type { ServerParts } from './parts.ts';
import { answerBrokenHttp, answerProblems, sendProblem } from './problem.ts';
import { relayRoutes } from './relay.ts';
import { canonicalUrl } from './urls.ts';

/** Longest model or run id in a path; Node refuses request lines over 16 KB anyway. */
const longestParam = 2048;
/** Longer than any usual proxy's, so that no proxy reuses a connection that is just being closed. */
const keepAliveMs = 610_000;
/** For the last words of streams that are ended; whoever does not read them is cut off. */
const farewellMs = 2_000;
/** For receiving a request, not for answering it. */
const receiveMs = 300_000;

/** The HTTP application; it does not listen. Close it to stop accepting, drain streams and end what is left. */
export function createApp(parts: ServerParts): FastifyInstance {
  const app = fastify({
    logger: parts.logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: parts.limits.bodyBytes,
    keepAliveTimeout: keepAliveMs,
    requestTimeout: receiveMs,
    genReqId: () => `req_${parts.newId()}`,
    rewriteUrl: ({ url }) => canonicalUrl(url ?? '/'),
    return503OnClosing: false,
    routerOptions: { maxParamLength: longestParam },
    clientErrorHandler: answerBrokenHttp,
    // Raised before any hook runs.
    frameworkErrors: (error, request, reply) => {
      reply.header('x-request-id', request.id);
      sendProblem(error, request, reply);
    },
  });
  const inFlight = new InFlight(parts.limits.runs);
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    done();
  });
  allowCrossOrigin(app);
  answerProblems(app);
  acceptJsonBodies(app, parts.limits.bodyBytes);
  const refuseOtherMethods = collectMethods(app);
  drainOnClose(app, inFlight, parts.timings.drainMs);
  describeApi(app);
  app.register(async (front) => frontRoutes(front, parts));
  app.register(async (api) => {
    authenticate(api, parts);
    const once = createAnswerOnce(api, parts.now);
    chatRoutes(api, parts, inFlight, once);
    modelRoutes(api, parts);
    orchestraRoutes(api, parts, inFlight);
    relayRoutes(api, parts, inFlight, once);
  });
  app.register(refuseOtherMethods);
  return app;
}

/**
 * On close, requests at work go on for a while; then each is stopped, and its client told so. New ones on connections
 * that are still open are turned away.
 */
function drainOnClose(app: FastifyInstance, inFlight: InFlight, drainMs: number): void {
  const goodbye = () => new OrchestraError('policy_unavailable', 'The gateway is shutting down.');
  let timer: NodeJS.Timeout | undefined;
  app.addHook('preClose', async () => {
    timer = setTimeout(() => {
      inFlight.stopAll(goodbye());
      timer = setTimeout(() => app.server.closeAllConnections(), farewellMs);
    }, drainMs);
  });
  app.addHook('onRequest', (_request, _reply, done) => done(timer && goodbye()));
  // A connection that becomes idle only now is kept alive by nobody but its client, and would hold up the end.
  app.addHook('onResponse', (_request, _reply, done) => {
    if (timer) setImmediate(() => app.server.closeIdleConnections());
    done();
  });
  app.addHook('onClose', async () => clearTimeout(timer));
}
