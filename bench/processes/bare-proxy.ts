import type { AddressInfo } from 'node:net';
import { fastify } from 'fastify';
import { Agent, request as send } from 'undici';
import { sayListening } from './control.ts';

/** The least that a gateway in Node can do: parse the body, forward it, stream the answer back. No keys, no money. */

const [upstreamUrl = ''] = process.argv.slice(2);
const dispatcher = new Agent();
const app = fastify();

app.post('/v1/chat/completions', async ({ body }, reply) => {
  const response = await send(`${upstreamUrl}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    dispatcher,
  });
  reply.code(response.statusCode).header('content-type', response.headers['content-type']);
  return reply.send(response.body);
});

await app.listen({ host: '127.0.0.1', port: 0 });
const { port } = app.server.address() as AddressInfo; // A TCP listener always has one.
sayListening(`http://127.0.0.1:${port}/v1`);
