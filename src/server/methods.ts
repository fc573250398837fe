import type { FastifyInstance, HTTPMethods } from 'fastify';
import { OrchestraError } from '../errors.ts';
import { routeSchemas } from './docs.ts';

const methods: readonly HTTPMethods[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/**
 * Gives every path the methods that it lacks, each a 405 that says which there are. Call it before the routes; the
 * returned function, registered after them, does it.
 */
export function collectMethods(app: FastifyInstance): (after: FastifyInstance) => Promise<void> {
  const allowed = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    if (url.startsWith('/docs')) return;
    const known = allowed.get(url) ?? new Set();
    for (const name of [method].flat()) known.add(name);
    allowed.set(url, known);
  });
  return async (after) => {
    for (const [url, known] of [...allowed]) refuse(after, url, known);
  };
}

function refuse(app: FastifyInstance, url: string, known: ReadonlySet<string>): void {
  const missing = methods.filter((method) => !known.has(method));
  const allow = [...known, 'OPTIONS'].join(', ');
  app.route({
    method: missing,
    url,
    schema: routeSchemas.hidden,
    // Before the body is read.
    onRequest: async (request, reply) => {
      reply.header('allow', allow);
      throw new OrchestraError('method_not_allowed', `${request.method} is not allowed here; ${allow} are.`);
    },
    handler: async () => {},
  });
}
