import type { FastifyInstance } from 'fastify';

const exposedHeaders = [
  'x-request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'x-orchestra-run-id',
  'x-orchestra-cost-usd',
  'x-orchestra-budget-remaining-usd',
].join(', ');

/**
 * Browsers may call from any origin, as with OpenAI's own API: what protects the gateway is the key, which no browser
 * adds by itself. Preflights are answered before authentication, and errors carry the headers too, or the browser
 * would hide them.
 */
export function allowCrossOrigin(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { origin } = request.headers;
    if (origin !== undefined) {
      reply.header('access-control-allow-origin', origin);
      reply.header('access-control-expose-headers', exposedHeaders);
      reply.header('vary', 'Origin');
    }
    if (request.method !== 'OPTIONS') return done();
    const asked = request.headers['access-control-request-headers'];
    if (asked !== undefined) reply.header('access-control-allow-headers', asked);
    reply.header('access-control-allow-methods', 'GET, POST, DELETE, HEAD, OPTIONS');
    reply.header('access-control-max-age', '86400');
    reply.code(204).send();
  });
}
