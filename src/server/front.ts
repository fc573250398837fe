import type { FastifyInstance, FastifyRequest } from 'fastify';
import { routeSchemas } from './docs.ts';
import { curlExample, frontPage, frontPolicy } from './front-page.ts';
import type { ServerParts } from './parts.ts';

/** What anybody may see without a key: what this is, and whether it works. */
export function frontRoutes(app: FastifyInstance, { readiness, policy, profiles, keys }: ServerParts): void {
  app.get('/', { schema: routeSchemas.front }, async (request, reply) => {
    const example = { baseUrl: `${originOf(request)}/v1`, needsKey: keys !== undefined };
    reply.header('vary', 'accept, host, x-forwarded-proto');
    if (!request.headers.accept?.includes('text/html')) return { ...about, try: curlExample(example) };
    // What the operator named stands behind the key, as `/v1/models` does.
    const shown = example.needsKey ? [] : Object.keys(profiles);
    const models = ['orchestra', ...shown.map((profile) => `orchestra:${profile}`)];
    return reply
      .type('text/html; charset=utf-8')
      .headers({ 'content-security-policy': frontPolicy, 'x-content-type-options': 'nosniff' })
      .send(frontPage({ ...about, ...example, ...readiness(), policy: policy(), models }));
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
function originOf({ host, headers }: FastifyRequest): string {
  const scheme = headers['x-forwarded-proto'] === 'https' ? 'https' : 'http';
  return `${scheme}://${/^[A-Za-z0-9.:[\]-]{1,100}$/.test(host) ? host : 'localhost'}`;
}
