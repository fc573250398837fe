// biome-ignore-all lint/suspicious/noTemplateCurlyInString: this is how configuration names variables
import { afterEach, expect, test } from 'vitest';
import { readConfig } from '../../src/assembly/load-config.ts';
import { openWorkplace, type Workplace } from './command-line.ts';

const patienceMs = 60_000;
let place: Workplace | undefined;
afterEach(() => place?.close());

const environment = { CLOUD_KEY: 'sk-secret-of-cloud', WEB_KEY: 'tvly-secret', TEAM_KEY: 'sk-secret-of-team' };
const config = {
  server: { port: 4321, keys: [{ name: 'team', env: 'TEAM_KEY', ceiling: { max_cost_usd: 0.1 } }] },
  upstreams: { cloud: { kind: 'openai', base_url: 'https://api.example.com/v1', api_key: '${CLOUD_KEY}' } },
  tools: { web: { kind: 'tavily', api_key: '${WEB_KEY}', price: { per_call: '0.008' } } },
  slots: {
    'answer-1': {
      role: 'answer',
      upstream: 'cloud',
      model: 'm',
      quality: 'good: “quoted”, # and more',
      price: { input: '0.10', output: 2 },
      skills: { math: 0.5 },
    },
    'search-1': { role: 'search', tools: ['web'], writer: 'answer-1', quality: 'the web' },
  },
  relay: ['cloud/*'],
  profiles: { careful: { optimize: 'quality', max_cost_usd: 0.25 } },
};

test('config print shows a file that reads back as the same, secrets hidden', { timeout: patienceMs }, async () => {
  place = openWorkplace();
  const path = place.write('orchestra.yaml', config);
  const printing = place.start(['config', 'print'], environment);
  expect(await printing.ended).toBe(0);
  const printed = printing.output();
  expect(printed).not.toMatch(/secret/);
  expect(printed).toContain('# From orchestra.yaml, defaults filled in.');

  const original = readConfig(path, environment);
  const read = readConfig(place.write('printed.yaml', printed), environment);
  const hidden = '(hidden)';
  expect(read).toEqual({
    ...original,
    upstreams: { cloud: { ...original.upstreams['cloud'], api_key: hidden } },
    tools: { web: { ...original.tools['web'], api_key: hidden } },
  });
});

test('config print hides what is secret in an address, and nothing else of it', { timeout: patienceMs }, async () => {
  place = openWorkplace();
  place.write('orchestra.yaml', {
    upstreams: {
      account: { kind: 'openai', base_url: 'https://me:sk-secret@api.example.com:8443/v1' },
      token: { kind: 'openai', base_url: 'https://sk-secret@api.example.com/v1' },
      parameter: { kind: 'openai', base_url: '${ADDRESS}' },
      plain: { kind: 'openai', base_url: 'https://api.example.com/v1/' },
    },
    tools: { web: { kind: 'searxng', base_url: 'http://u:secret@10.0.0.1:8080/search#secret' } },
  });
  const printing = place.start(['config', 'print'], { ADDRESS: 'https://x.example/v1?key=sk-secret&v=2&key=secret-2' });
  expect(await printing.ended).toBe(0);
  const printed = printing.output();
  expect(printed).not.toContain('secret');
  const addresses = [...printed.matchAll(/base_url: (\S+)/g)].map(([, address]) => address);
  expect(addresses).toEqual([
    'https://(hidden)@api.example.com:8443/v1',
    'https://(hidden)@api.example.com/v1',
    'https://x.example/v1?key=(hidden)&v=(hidden)',
    'https://api.example.com/v1/',
    'http://(hidden)@10.0.0.1:8080/search',
  ]);
});

test('config print without a file shows the defaults, and they read back', { timeout: patienceMs }, async () => {
  place = openWorkplace();
  const printing = place.start(['config', 'print'], { OPENAI_API_KEY: 'sk-secret-of-cloud', PORT: '4000' });
  expect(await printing.ended).toBe(0);
  expect(printing.output()).toContain('# The embedded defaults.');
  expect(printing.output()).not.toContain('sk-secret');
  const read = readConfig(place.write('printed.yaml', printing.output()), {});
  expect(read.server.port).toBe(4000);
  expect(Object.keys(read.slots)).toContain('answer-1');
});

test('config print of a broken file ends with its mistakes', { timeout: patienceMs }, async () => {
  place = openWorkplace();
  place.write('orchestra.yaml', 'upstreams:\n  cloud: { api_key: "sk-pasted-secret\n');
  const printing = place.start(['config', 'print'], {});
  expect(await printing.ended).toBe(1);
  expect(printing.errors()).toMatch(/^orchestra\.yaml: is not YAML: .* at line 3, column 1\n$/);
  expect(printing.output()).toBe('');
});

test('an unknown command shows the help', { timeout: patienceMs }, async () => {
  place = openWorkplace();
  const asking = place.start(['config', 'prnit'], {});
  expect(await asking.ended).toBe(1);
  expect(asking.errors()).toMatch(/unknown command 'prnit'[\s\S]*Usage: orchestra config/);
});
