import { Pool } from 'undici';

export interface Target {
  /** Base URL that ends in `/v1`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** @throws when an answer is not what was asked for. */
  readonly check: (text: string) => void;
}

export interface LoadResult {
  readonly latenciesMs: readonly number[];
  readonly wallMs: number;
}

/** Asks so many times over so many connections, each the next question once it has its answer. */
export async function load(target: Target, requests: number, concurrency: number): Promise<LoadResult> {
  const { origin, pathname } = new URL(`${target.url}/chat/completions`);
  const pool = new Pool(origin, { connections: concurrency, pipelining: 1 });
  const headers = { 'content-type': 'application/json', ...target.headers };
  const latenciesMs: number[] = [];
  let asked = 0;
  const worker = async () => {
    while (asked < requests) {
      asked += 1;
      const startedAt = performance.now();
      const response = await pool.request({ path: pathname, method: 'POST', headers, body: target.body });
      const text = await response.body.text();
      latenciesMs.push(performance.now() - startedAt);
      if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}: ${text.slice(0, 300)}`);
      target.check(text);
    }
  };
  const startedAt = performance.now();
  try {
    await Promise.all(Array.from({ length: concurrency }, worker));
  } finally {
    await pool.destroy();
  }
  return { latenciesMs, wallMs: performance.now() - startedAt };
}
