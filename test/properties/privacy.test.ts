import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildGateway, type Gateway } from '../../src/assembly/gateway.ts';
import { parseConfig } from '../../src/assembly/load-config.ts';
import { noUsage } from '../../src/cost/usage.ts';
import { type PrivacyClass, privacyClasses, privacyRank, satisfiesPrivacy } from '../../src/preferences/privacy.ts';
import type { Candidate, Policy } from '../../src/router/policy.ts';
import type { ReceivedRequest } from '../support/loopback/listener.ts';
import { type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';
import { startTavilyServer, type TavilyServer } from '../support/loopback/tavily-server.ts';

/*
 * Every class × every kind of tool × streaming, against a policy that always picks the weakest class it is offered.
 * Servers of each class record every byte. A marked secret in the request, or in a document of our own, must never
 * reach a server below what the request, or the document, demands; nor an error, a log line, or another key.
 */

const remoteClasses = privacyClasses.filter((value) => value !== 'local');
const kinds = ['answer', 'attempt', 'enhance_reasoning', 'search', 'relay'] as const;
type Kind = (typeof kinds)[number];
const requestSecret = 'AMBERFOX-REQUEST';
const documentSecret = (value: PrivacyClass) => `AMBERFOX-DOCUMENT-${value}`;

interface Site {
  readonly openAi: OpenAiServer;
  readonly web: TavilyServer;
}
const sites = new Map<PrivacyClass, Site>();
let failing = false;
/** What the policy takes on the first turn, if it is on offer. */
let wantedSlot: string | undefined;
let gateway: Gateway;
let url = '';
let home = '';
const logged: string[] = [];
const logStream = new Writable({
  write: (chunk, _, done) => {
    logged.push(String(chunk));
    done();
  },
});

/** Does what the problem says first (`KIND:answer`), always at the weakest class on offer. */
const adversary: Policy = {
  name: 'adversary',
  backend: 'scripted',
  contract: 'slots-2',
  bound: noUsage,
  decide: async ({ candidates, problem, turn }) => {
    const wanted = turn === 1 ? /KIND:(\w+)/.exec(problem)?.[1] : 'answer';
    const weakest = (list: readonly Candidate[]) =>
      list.toSorted((a, b) => privacyRank(a.slot.privacy) - privacyRank(b.slot.privacy))[0];
    const chosen =
      (turn === 1 ? candidates.find(({ id }) => id === wantedSlot) : undefined) ??
      weakest(candidates.filter(({ role, delivers }) => role === wanted && !delivers)) ??
      weakest(candidates);
    return { probabilities: candidates.map((one) => (one === chosen ? 1 : 0)), weighted: true, usage: noUsage };
  },
};

/** An upstream that quotes the request back when it fails, as some do. */
function answerAs(value: PrivacyClass, request: ReceivedRequest) {
  if (failing)
    return { kind: 'json', status: 500, body: { error: { message: JSON.stringify(request.body) } } } as const;
  const asksForQuery = JSON.stringify(request.body).includes('<query>');
  const asksForCode = request.body['model'] === 'coder';
  const program = '```python\nprint("ran")\n```';
  const text = asksForQuery ? `<query>${requestSecret} query</query>` : asksForCode ? program : `from ${value}`;
  return { kind: 'completion', text: [text] } as const;
}

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'orchestra-privacy-'));
  for (const value of remoteClasses) {
    sites.set(value, {
      openAi: await startOpenAiServer((request) => answerAs(value, request)),
      web: await startTavilyServer(),
    });
  }
  for (const value of privacyClasses) {
    mkdirSync(join(home, value));
    writeFileSync(
      join(home, value, 'note.md'),
      `# Zebra ledger ${value}\n\nThe zebra ledger says ${documentSecret(value)}.\n`,
    );
  }
  gateway = await buildGateway({
    config: parseConfig(configuration(), {}),
    environment: {},
    home,
    modelsFolder: home,
    policy: adversary,
    logger: {
      level: 'trace',
      stream: logStream,
    },
    patience: {
      firstTokenTimeoutMs: 2000,
      betweenTokensTimeoutMs: 2000,
      answerTimeoutMs: 2000,
      retryAttempts: 1,
      retryBaseDelayMs: 1,
    },
  });
  await gateway.app.listen({ host: '127.0.0.1', port: 0 });
  url = `http://127.0.0.1:${(gateway.app.server.address() as AddressInfo).port}`; // A TCP listener always has one.
});

afterAll(async () => {
  await gateway.close();
  for (const { openAi, web } of sites.values()) await Promise.all([openAi.close(), web.close()]);
  rmSync(home, { recursive: true, force: true });
});

function configuration() {
  const named = (
    prefix: string,
    entry: (value: PrivacyClass, index: number) => unknown,
    classes: readonly PrivacyClass[] = remoteClasses,
  ) => Object.fromEntries(classes.map((value, index) => [`${prefix}${index + 1}`, entry(value, index)]));
  const price = { input: 0, output: 0 };
  const expert = (value: PrivacyClass, model: string) => ({
    upstream: `up-${value.replace('_', '-')}`,
    model,
    price,
    quality: 'good',
    latency_ms: 1,
  });
  return {
    store: 'memory',
    server: {
      auth: 'keys',
      keys: [
        { name: 'one', sha256: sha('key-one') },
        { name: 'two', sha256: sha('key-two') },
      ],
    },
    upstreams: Object.fromEntries(
      remoteClasses.map((value) => [
        `up-${value.replace('_', '-')}`,
        { kind: 'openai', base_url: sites.get(value)?.openAi.url, api_key: 'sk', privacy: value },
      ]),
    ),
    tools: {
      python: { kind: 'sandbox' },
      ...named('web-', (value) => ({
        kind: 'tavily',
        api_key: 'tv',
        base_url: sites.get(value)?.web.url,
        privacy: value,
        price: {},
      })),
      ...named('docs-', (value) => ({ kind: 'local_search', folders: [join(home, value)], privacy: value }), [
        ...privacyClasses,
      ]),
    },
    slots: {
      ...named('answer-', (value) => ({ role: 'answer', ...expert(value, 'writer') })),
      ...named('reasoner-', (value) => ({ role: 'enhance_reasoning', sandbox: 'python', ...expert(value, 'coder') })),
      ...named('search-', (_, index) => ({
        role: 'search',
        tools: [`web-${index + 1}`],
        writer: `answer-${index + 1}`,
        quality: 'web',
      })),
      // One slot over all sources: a limit must take sources away one by one.
      'search-8': {
        role: 'search',
        tools: remoteClasses.map((_, index) => `web-${index + 1}`),
        writer: 'answer-4',
        quality: 'web',
      },
      ...named('search-9', (_, index) => ({ role: 'search', tools: [`docs-${index + 1}`], quality: 'documents' }), [
        ...privacyClasses,
      ]),
    },
    relay: remoteClasses.map((value) => `up-${value.replace('_', '-')}/*`),
  };
}

const sha = (secret: string): string => createHash('sha256').update(secret).digest('hex');

/** Classes of the servers that saw this text, in any header, path or body. */
function whoSaw(text: string): PrivacyClass[] {
  return [...sites].flatMap(([value, { openAi, web }]) =>
    [...openAi.requests, ...web.requests].some((request) =>
      JSON.stringify([request.path, request.headers, request.body]).includes(text),
    )
      ? [value]
      : [],
  );
}

let sequence = 0;
interface Asked {
  readonly marker: string;
  readonly status: number;
  readonly body: string;
  readonly runId: string | null;
}
async function ask(model: string, problem: string, preferences: object, stream: boolean): Promise<Asked> {
  const marker = `${requestSecret}-${++sequence}`;
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer key-one', 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      stream,
      messages: [
        { role: 'system', content: marker },
        { role: 'user', content: problem },
      ],
      preferences: { explain: 'full', instruction: marker, ...preferences },
    }),
  });
  return {
    marker,
    status: response.status,
    body: await response.text(),
    runId: response.headers.get('x-orchestra-run-id'),
  };
}

const cases = privacyClasses.flatMap((privacy) =>
  kinds.flatMap((kind) => [true, false].map((stream) => ({ privacy, kind, stream }))),
);

describe('a secret in the request', () => {
  test.each(cases)('of class $privacy stays there: $kind, stream $stream', async ({ privacy, kind, stream }) => {
    failing = false;
    const outcomes = await Promise.all(targetsOf(kind).map((model) => ask(model, `KIND:${kind}`, { privacy }, stream)));
    for (const { marker, status, body } of outcomes) {
      const saw = whoSaw(marker);
      expect(saw.filter((value) => !satisfiesPrivacy(value, privacy))).toEqual([]);
      // Refusing everything would pass too: what may be asked must have been.
      if (status === 200) expect(saw.length).toBeGreaterThan(0);
      else expect(body).toContain('limits_unsatisfiable');
    }
    expect(outcomes.some(({ status }) => status === 200)).toBe(privacy !== 'local');
  });

  test('stays out of errors, logs and records when every upstream fails and quotes it', async () => {
    failing = true;
    const outcomes = await Promise.all(
      ['orchestra', 'up-any/writer'].flatMap((model) =>
        [true, false].map((stream) => ask(model, 'KIND:answer', {}, stream)),
      ),
    );
    failing = false;
    for (const { marker, body, runId } of outcomes) {
      expect(whoSaw(marker).length).toBeGreaterThan(0);
      const record = await fetch(`${url}/v1/orchestra/runs/${runId}`, { headers: { authorization: 'Bearer key-one' } });
      expect(record.status).toBe(200);
      expect(await record.text()).not.toContain(marker);
      expect(logged.join('')).not.toContain(marker);
      expect(body).toContain('error');
      expect(body).not.toContain(marker);
    }
  });

  test('is no business of another key', async () => {
    const { runId } = await ask('orchestra', 'KIND:answer', {}, false);
    const other = await fetch(`${url}/v1/orchestra/runs/${runId}`, { headers: { authorization: 'Bearer key-two' } });
    expect(other.status).toBe(404);
  });
});

function targetsOf(kind: Kind): readonly string[] {
  if (kind !== 'relay') return ['orchestra'];
  return remoteClasses.map((value) => `up-${value.replace('_', '-')}/writer`);
}

describe('a secret in a document of our own', () => {
  test.each(privacyClasses.flatMap((value) => [true, false].map((stream) => ({ value, stream }))))(
    'of class $value reaches no weaker slot, stream $stream',
    async ({ value, stream }) => {
      wantedSlot = `search-9${privacyClasses.indexOf(value) + 1}`;
      const { status, body } = await ask('orchestra', 'What does the zebra ledger say?', {}, stream);
      wantedSlot = undefined;
      expect(status).toBe(200);
      const saw = whoSaw(documentSecret(value));
      expect(saw.filter((seen) => !satisfiesPrivacy(seen, value))).toEqual([]);
      if (value === 'local') expect(body).toContain('evidence_dropped');
      else expect(saw.length).toBeGreaterThan(0);
    },
  );
});

test('the matrix had every case', () => {
  expect(cases).toHaveLength(privacyClasses.length * kinds.length * 2);
});
