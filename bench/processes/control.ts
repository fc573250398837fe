import { type Profiler, Session } from 'node:inspector/promises';

/** What the benchmark asks of a process that it measures; `--import` brings this into programs of other people too. */
export type Question = 'cpu' | 'profile-start' | 'profile-stop';

export interface Cpu {
  readonly cpuUs: number;
  readonly residentBytes: number;
}

export interface Listening {
  readonly url: string;
}

const session = new Session();

process.on('message', (question: Question) => {
  void answer(question).then((reply) => process.send?.({ question, reply }));
});

async function answer(question: Question): Promise<Cpu | Profiler.Profile | null> {
  if (question === 'profile-start') {
    session.connect();
    await session.post('Profiler.enable');
    await session.post('Profiler.setSamplingInterval', { interval: 200 });
    await session.post('Profiler.start');
    return null;
  }
  if (question === 'profile-stop') {
    const { profile } = await session.post('Profiler.stop');
    session.disconnect();
    return profile;
  }
  const { user, system } = process.cpuUsage();
  return { cpuUs: user + system, residentBytes: process.memoryUsage.rss() };
}

export function sayListening(url: string): void {
  process.send?.({ question: 'listening', reply: { url } satisfies Listening });
}
