import { createHash } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { clientKey } from '../wire.ts';
import { sayListening } from './control.ts';

/**
 * The compiled gateway as it is served: a key with a daily budget, prices, the ledger and the records in a SQLite file.
 * Only the policy is scripted, so that no model is loaded and every decision takes no time.
 */

// Types come from the sources; what runs is what `npm run build` wrote, untouched by any loader.
const compiled = <T>(path: string) => import(new URL(`../../dist/${path}.js`, import.meta.url).href) as Promise<T>;
type GatewayModule = typeof import('../../src/assembly/gateway.ts');
type ConfigModule = typeof import('../../src/assembly/load-config.ts');
type PolicyModule = typeof import('../../src/router/policies/scripted.ts');

const { buildGateway } = await compiled<GatewayModule>('assembly/gateway');
const { parseConfig } = await compiled<ConfigModule>('assembly/load-config');
const { createScriptedPolicy } = await compiled<PolicyModule>('router/policies/scripted');

const [upstreamUrl = '', home = ''] = process.argv.slice(2);

const answerSlot = (model: string, input: number) => ({
  role: 'answer',
  upstream: 'loopback',
  model,
  quality: `model ${model}`,
  price: { input, output: 4 * input },
  latency_ms: 200,
  max_output: 2000,
});

const config = parseConfig(
  {
    server: {
      auth: 'keys',
      keys: [
        {
          name: 'bench',
          sha256: createHash('sha256').update(clientKey).digest('hex'),
          ceiling: { max_cost_usd_per_day: 1_000_000 },
        },
      ],
    },
    upstreams: {
      loopback: { kind: 'openai', base_url: upstreamUrl, api_key: 'sk-loopback', privacy: 'self_hosted' },
    },
    slots: { 'answer-1': answerSlot('bench', 1), 'answer-2': answerSlot('bench-small', 0.1) },
    relay: ['loopback/*'],
    limits: { runs: 1000 },
  },
  {},
);
const policy = createScriptedPolicy([{ role: 'answer', slot: 'answer-1' }]);
const { app } = await buildGateway({ config, environment: {}, home, modelsFolder: home, policy });
await app.listen({ host: '127.0.0.1', port: 0 });
const { port } = app.server.address() as AddressInfo; // A TCP listener always has one.
sayListening(`http://127.0.0.1:${port}/v1`);
