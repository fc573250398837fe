import { cancelled, throwIfCancelled } from './cancelled.ts';

/** So many at a time. */
export interface Lanes {
  /**
   * Waits for a free lane, in order of arrival. Whoever has entered must leave.
   * @throws AbortError when the signal fires first; the queue is left then.
   */
  enter(signal: AbortSignal): Promise<() => void>;
  /** Does a task in a lane of its own. */
  run<T>(signal: AbortSignal, task: () => Promise<T>): Promise<T>;
}

export function createLanes(count: number): Lanes {
  let free = count;
  const waiting = new Set<() => void>();

  const waitForLane = (signal: AbortSignal): Promise<void> => {
    throwIfCancelled(signal);
    if (free > 0) {
      free -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const start = () => {
        signal.removeEventListener('abort', giveUp);
        resolve();
      };
      const giveUp = () => {
        waiting.delete(start);
        reject(cancelled());
      };
      waiting.add(start);
      signal.addEventListener('abort', giveUp, { once: true });
    });
  };

  /** Hands the lane to the longest waiting task, so that a newcomer cannot overtake it. */
  const leave = () => {
    const [next] = waiting;
    if (next === undefined) free += 1;
    else {
      waiting.delete(next);
      next();
    }
  };

  return {
    async enter(signal) {
      await waitForLane(signal);
      return leave;
    },
    async run(signal, task) {
      await waitForLane(signal);
      try {
        return await task();
      } finally {
        leave();
      }
    },
  };
}
