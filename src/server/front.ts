import type { FastifyInstance } from 'fastify';
import { routeSchemas } from './docs.ts';
import type { ServerParts } from './parts.ts';

/** What anybody may see without a key: what this is, and whether it works. */
export function frontRoutes(app: FastifyInstance, { readiness }: ServerParts): void {
  app.get('/', { schema: routeSchemas.front }, async (request, reply) => {
    const curl = curlLine(request.host);
    if (!request.headers.accept?.includes('text/html')) return { ...about, try: curl };
    return reply.type('text/html; charset=utf-8').send(page(curl));
  });
  for (const url of ['/healthz', '/health'])
    app.get(url, { schema: routeSchemas.health }, async () => ({ status: 'ok' }));
  app.get('/readyz', { schema: routeSchemas.ready }, async (_, reply) => {
    const { ready, notes } = readiness();
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not ready', notes });
  });
}

const about = {
  name: 'Orchestra',
  description:
    'An OpenAI-compatible gateway. The model `orchestra` decides turn by turn which priced tool answers a request best.',
  api: '/v1',
  models: '/v1/models',
  documentation: '/docs',
};

/** The Host header is the client's to invent, so only a plain one is repeated. */
function curlLine(host: string): string {
  const base = /^[A-Za-z0-9.:[\]-]{1,100}$/.test(host) ? host : 'localhost';
  const body = '{"model": "orchestra", "messages": [{"role": "user", "content": "What is 17 * 23?"}]}';
  return `curl http://${base}/v1/chat/completions -H 'content-type: application/json' -d '${body}'`;
}

const page = (curl: string) => `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>${about.name}</title>
<body style="font: 1rem/1.5 system-ui; max-width: 46rem; margin: 3rem auto; padding: 0 1rem">
<h1>${about.name}</h1>
<p>${about.description}</p>
<pre style="overflow: auto; padding: 1rem; background: #f3f3f3">${curl}</pre>
<p><a href="${about.documentation}">Documentation</a> · <a href="${about.models}">Models</a></p>
</body></html>
`;
