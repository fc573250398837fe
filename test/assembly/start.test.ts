import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { buildGateway } from '../../src/assembly/gateway.ts';
import { ConfigError, parseConfig, readConfig } from '../../src/assembly/load-config.ts';
import { readStart } from '../../src/assembly/start.ts';

const folder = mkdtempSync(join(tmpdir(), 'orchestra-start-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const build = (config: object, home = folder) =>
  buildGateway({
    config: parseConfig({ store: 'memory', ...config }, {}),
    environment: {},
    home,
    modelsFolder: join(folder, 'models'),
    // A process with weights for each gateway would be most of the work, and nothing here looks at it.
    embedding: false,
    logger: false,
  });

async function problemOf(building: Promise<unknown>): Promise<string> {
  try {
    await building;
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  throw new Error('it was built');
}

describe('what cannot be served ends the start with a sentence', () => {
  test('a folder of documents that is not there', async () => {
    const docs = { kind: 'local_search', folders: [join(folder, 'nowhere')] };
    expect(await problemOf(build({ tools: { docs } }))).toBe(
      `tools.docs.folders: ${join(folder, 'nowhere')} cannot be read (ENOENT): correct the path`,
    );
  });

  test.each([
    ['an id that nobody knows', 'orchestra-9b', /There is no model "orchestra-9b"\. Known: smollm2-135m-instruct, /],
    ['a file that is not there', '/nowhere/policy.gguf', /there is no file \/nowhere\/policy\.gguf/],
    ['a model that was not fetched', 'qwen3-8b', /run `npm run orchestra -- models pull qwen3-8b`/],
  ])('a policy that is %s, where no fallback is allowed', async (_, model, reason) => {
    const problem = await problemOf(build({ policy: { backend: 'llama', model, fallback: 'none' } }));
    expect(problem).toMatch(/^policy\.model: .*policy\.fallback is `none`$/);
    expect(problem).toMatch(reason);
  });

  test('a home that is no folder', async () => {
    const file = join(folder, 'a-file');
    writeFileSync(file, '');
    expect(await problemOf(build({ store: 'sqlite' }, join(file, 'home')))).toMatch(
      /^ORCHESTRA_HOME: the database in .*a-file\/home cannot be opened \(ENOTDIR\)/,
    );
  });

  test('a database that is none', async () => {
    const home = join(folder, 'broken-home');
    mkdirSync(home);
    writeFileSync(join(home, 'orchestra.db'), 'this is no database, whatever its name says. '.repeat(50));
    expect(await problemOf(build({ store: 'sqlite' }, home))).toMatch(
      /^ORCHESTRA_HOME: the database in .*broken-home cannot be opened \(SQLITE_NOTADB\)/,
    );
  });
});

describe('what is merely missing is said, and the rest serves', () => {
  test.each([
    ['an id that nobody knows', 'orchestra-9b', 'There is no model "orchestra-9b"'],
    ['a model that was not fetched', 'qwen3-8b', 'models pull qwen3-8b'],
  ])('a policy that is %s is stood in for by estimate', async (_, model, reason) => {
    const gateway = await build({ policy: { backend: 'llama', model } });
    expect(gateway.policy.name).toBe('estimate');
    expect(gateway.notes[0]).toMatch(/^policy: estimate, because /);
    expect(gateway.notes[0]).toContain(reason);
    await gateway.close();
  });

  test('no bundled policy is waited for where no cards are to be compared', async () => {
    const price = { input: 1, output: 1 };
    const slot = (skills: object) => ({ role: 'answer', upstream: 'one', model: 'm', quality: 'good', price, skills });
    const upstreams = { one: { kind: 'openai', base_url: 'http://127.0.0.1:9/v1', privacy: 'self_hosted' } };
    const noteOf = async (...skills: object[]) => {
      const slots = Object.fromEntries(skills.map((measured, place) => [`answer-${place + 1}`, slot(measured)]));
      const gateway = await build({ upstreams, slots });
      await gateway.close();
      return gateway.notes[0];
    };
    const none = /^policy: estimate, because no cards are to be compared/;
    expect(await noteOf({ law: 0.8 }, { law: 0.4 })).toMatch(none);
    expect(await noteOf({})).toMatch(none);
    expect(await noteOf({ law: 0.8 }, {})).toMatch(/^policy: estimate, until the base of card-reader is here/);
  });

  test('a local model that is not here takes only its own slots away', async () => {
    const gateway = await build({
      models: { smol: { path: '/nowhere/smol.gguf' } },
      upstreams: { cloud: { kind: 'openai', base_url: 'http://127.0.0.1:9/v1' } },
      slots: {
        'answer-1': { role: 'answer', local: 'smol', quality: 'x' },
        'answer-2': { role: 'answer', upstream: 'cloud', model: 'm', quality: 'x', price: { input: 1 } },
      },
    });
    expect(gateway.slots.map(({ id }) => id)).toEqual(['answer-2']);
    expect(gateway.notes).toContain('answer-1 (local/smol) is left out: something that it needs is missing');
    expect(gateway.notes.join('\n')).toContain('there is no file /nowhere/smol.gguf');
    await gateway.close();
  });
});

describe('what a process starts from', () => {
  const path = join(folder, 'some.yaml');
  writeFileSync(path, 'server: { port: 4000 }\n');

  test('is the file asked for on the command line, before the one in the environment', () => {
    expect(readStart({ ORCHESTRA_CONFIG: '/nowhere.yaml' }, path)).toMatchObject({ configPath: path, disabled: [] });
    expect(readStart({ ORCHESTRA_CONFIG: path }, undefined).config.server.port).toBe(4000);
  });

  test('HOST and PORT win over the file, and are checked like it', () => {
    expect(readStart({ PORT: '0' }, path).config.server).toMatchObject({ port: 0, host: '127.0.0.1' });
    expect(() => readStart({ PORT: 'eighty' }, path)).toThrow('PORT: is a number from 0 to 65535');
    expect(() => readStart({ PORT: '70000', HOST: '0.0.0.0' }, path)).toThrow(
      /PORT: .*\nserver\.host: 0\.0\.0\.0 can be/,
    );
    expect(readStart({ HOST: '0.0.0.0', ORCHESTRA_AUTH: 'none' }, undefined).configPath).toBeUndefined();
  });
});

describe('orchestra.example.yaml', () => {
  const example = new URL('../../orchestra.example.yaml', import.meta.url);
  const text = readFileSync(example, 'utf8');
  const variables = [...text.matchAll(/\$\{(\w+)\}|env: (\w+)/g)].map(([, inText, named]) => inText ?? named ?? '');
  const environment = Object.fromEntries(variables.map((variable) => [variable, `the ${variable}`]));

  test('is served as it stands once its variables are set', () => {
    const config = readConfig(example.pathname, environment);
    expect(Object.keys(config.slots)).toContain('answer-1');
    expect(config.upstreams['openai']?.api_key).toBe('the OPENAI_API_KEY');
  });

  test('names every variable that is missing', () => {
    expect(variables.length).toBeGreaterThan(2);
    for (const variable of variables) expect(() => readConfig(example.pathname, {})).toThrow(`${variable} is not set`);
  });

  test('is what docs/orchestra.schema.json admits, and a misspelt key is not', () => {
    const stored = readFileSync(new URL('../../docs/orchestra.schema.json', import.meta.url), 'utf8');
    const schema = z.fromJSONSchema(JSON.parse(stored));
    expect(schema.safeParse(parse(text)).error).toBeUndefined();
    expect(schema.safeParse(parse(text.replace('upstreams:', 'upstraems:'))).success).toBe(false);
    expect(schema.safeParse(parse(text.replace('role: answer', 'role: answers'))).success).toBe(false);
    expect(schema.safeParse(parse(text.replace('latency_ms', 'latencyms'))).success).toBe(false);
  });
});
