import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Profiler } from 'node:inspector/promises';
import { fileURLToPath } from 'node:url';
import type { Cpu, Listening, Question } from './processes/control.ts';

/** A server in a process of its own, so that its processor time can be told from everybody else's. */
export interface MeasuredProcess {
  readonly url: string;
  cpu(): Promise<Cpu>;
  startProfile(): Promise<void>;
  stopProfile(): Promise<Profiler.Profile>;
  stop(): Promise<void>;
}

const loaders = ['--import', import.meta.resolve('tsx')];
const control = ['--import', new URL('./processes/control.ts', import.meta.url).href];

/** One of our own programs in `processes`, which says itself where it listens. */
export async function startOwn(name: string, ...args: string[]): Promise<MeasuredProcess> {
  const program = fileURLToPath(new URL(`./processes/${name}.ts`, import.meta.url));
  const child = fork(program, args, { execArgv: loaders, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const { url } = await reply<Listening>(child, 'listening');
  return measured(child, url);
}

/** Somebody else's program; `url` is where it will listen. */
export async function startForeign(program: string, args: readonly string[], url: string): Promise<MeasuredProcess> {
  const execArgv = [...loaders, ...control];
  const child = fork(program, [...args], { execArgv, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  return measured(child, url);
}

function measured(child: ChildProcess, url: string): MeasuredProcess {
  const ask = <T>(question: Question): Promise<T> => {
    const answered = reply<T>(child, question);
    child.send(question);
    return answered;
  };
  return {
    url,
    cpu: () => ask<Cpu>('cpu'),
    startProfile: () => ask<void>('profile-start'),
    stopProfile: () => ask<Profiler.Profile>('profile-stop'),
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** Rejects when the process ends instead of answering. */
function reply<T>(child: ChildProcess, question: Question | 'listening'): Promise<T> {
  return new Promise((resolve, reject) => {
    const ended = () => reject(new Error(`a measured process ended before it answered \`${question}\``));
    const receive = (message: unknown) => {
      const { question: about, reply: answer } = message as { question: string; reply: T }; // From processes/control.
      if (about !== question) return;
      child.off('message', receive).off('exit', ended);
      resolve(answer);
    };
    child.on('message', receive).once('exit', ended);
  });
}
