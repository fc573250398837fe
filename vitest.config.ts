import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    projects: [
      {
        // Times only end what hangs: on a machine that others use as well, a test gets a tenth of a core.
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: ['test/model/**'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        // Native code: one process, one file at a time, one compute thread.
        test: {
          name: 'model',
          include: ['test/model/**/*.test.ts'],
          pool: 'forks',
          maxWorkers: 1,
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
