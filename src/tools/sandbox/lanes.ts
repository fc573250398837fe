import { cancelled, throwIfCancelled } from '../cancelled.ts';

/** Lets `count` tasks run at a time; the others wait in order, and leave the queue when their signal fires. */
export function createLanes(count: number): <T>(signal: AbortSignal, task: () => Promise<T>) => Promise<T> {
  let free = count;
  const waiting = new Set<() => void>();

  const enter = (signal: AbortSignal): Promise<void> => {
    throwIfCancelled(signal);
    if (free > 0) {
      free -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const start = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = () => {
        waiting.delete(start);
        reject(cancelled());
      };
      waiting.add(start);
      signal.addEventListener('abort', leave, { once: true });
    });
  };

  /** Hands the lane to the longest waiting task, so that a newcomer cannot overtake it. */
  const exit = () => {
    const [next] = waiting;
    if (next === undefined) free += 1;
    else {
      waiting.delete(next);
      next();
    }
  };

  return async (signal, task) => {
    await enter(signal);
    try {
      return await task();
    } finally {
      exit();
    }
  };
}
