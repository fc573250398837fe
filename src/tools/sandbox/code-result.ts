import type { ProcessEnd } from './confined-process.ts';
import type { CodeResult, CodeStatus } from './sandbox.ts';

/** What the end of its process says about a program. */
export const codeResult = ({ killedFor, exitCode, stdout, stderr, durationMs }: ProcessEnd): CodeResult => ({
  status: killedFor ?? statusOf(exitCode),
  stdout,
  stderr,
  durationMs,
});

export const unavailable = (why: unknown): CodeResult => ({
  status: 'unavailable',
  stdout: '',
  stderr: String(why),
  durationMs: 0,
});

const lastSignal = 64;

/** Launchers pass the exit code of the code on; death by a signal is 128 and its number, or no code at all. */
function statusOf(exitCode: number): CodeStatus {
  if (exitCode === 0) return 'ok';
  return exitCode < 0 || (exitCode > 128 && exitCode <= 128 + lastSignal) ? 'killed' : 'exception';
}
