import { z } from 'zod';

/** What our own endpoints take. Queries arrive as texts. */

const wholeNumber = (least: number, most: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, 'must be a whole number')
    .transform(Number)
    .refine((value) => value >= least && value <= most, `must be from ${least} to ${most}`);

const unixSeconds = wholeNumber(0, 253_402_300_799);

export const runsQuery = z.strictObject({
  after: z.string().min(1).max(128).optional().describe('id of the last run of the page before'),
  limit: wholeNumber(1, 100).optional().describe('1 to 100; 20 when left out'),
  created_after: unixSeconds.optional().describe('at or after, in seconds since 1970'),
  created_before: unixSeconds.optional().describe('before, in seconds since 1970'),
  model: z.string().min(1).max(256).optional().describe('as it was asked for, or who answered'),
  status: z.enum(['completed', 'limited', 'failed', 'cancelled']).optional(),
  kind: z.enum(['run', 'relay']).optional(),
});
export type RunsQuery = z.infer<typeof runsQuery>;

/** How far back a usage report goes; what was spent is kept at least so long. */
export const mostUsageDays = 31;

export const usageQuery = z.strictObject({
  since: wholeNumber(1, mostUsageDays)
    .optional()
    .describe(`UTC days, today included: 1 to ${mostUsageDays}; 1 when left out`),
});

export const feedbackBody = z.strictObject({
  score: z.number().min(0).max(1).describe('how good the answer was, 0 to 1'),
  comment: z.string().max(2000).optional().describe('why; refused for private runs, of which no text is kept'),
});
