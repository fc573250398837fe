import { z } from 'zod';
import { privacyClasses } from './privacy.ts';

const weight = z.number().min(0).max(1);

const selector = z.string().min(1).max(200);
const mostSelectors = 64;
const selectors = z.array(selector).max(mostSelectors);
const dollars = z.number().nonnegative().max(1_000_000);

/** The top-level request object `preferences`. Strict: a misspelt limit that is silently ignored is a leak. */
export const preferencesSchema = z.strictObject({
  optimize: z
    .string()
    .min(1)
    .max(64)
    .optional()
    .describe('Name of a profile, such as `balanced`, `cheap` or `private`.'),
  weights: z
    .strictObject({
      quality: weight.optional(),
      cost: weight.optional(),
      latency: weight.optional(),
      privacy: weight.optional(),
      tools: z
        .record(selector, weight)
        .refine((tools) => Object.keys(tools).length <= mostSelectors, `has more than ${mostSelectors} selectors`)
        .optional(),
    })
    .optional()
    .describe('What matters, each 0 to 1; overrides `optimize` key by key.'),
  instruction: z.string().max(500).optional().describe('A wish in words; untrusted text.'),
  max_cost_usd: dollars.optional().describe('Hard: the whole request, all turns.'),
  max_latency_ms: z.int().positive().max(86_400_000).optional().describe('Hard deadline of the whole request.'),
  max_turns: z.int().min(1).max(50).optional().describe('Hard.'),
  privacy: z.enum(privacyClasses).optional().describe('Hard: least class that may see any byte of the request.'),
  regions: z.array(z.string().min(1).max(32)).min(1).max(64).optional().describe('Hard: data regions allowed.'),
  tools: z
    .strictObject({ allow: selectors.optional(), deny: selectors.optional() })
    .optional()
    .describe('Hard: selectors `slot:`, `role:`, `model:`, `upstream:`, `tool:`; a bare word is a slot id or a role.'),
  on_limit: z.enum(['best_effort', 'error']).optional(),
  explain: z.enum(['none', 'summary', 'full']).optional(),
  progress: z.enum(['none', 'reasoning_content', 'reasoning']).optional(),
  session_id: z.string().min(1).max(200).optional(),
});

export type RequestedPreferences = z.infer<typeof preferencesSchema>;

/** The part of preferences that a profile or a key's ceiling may set. */
export const profileSchema = preferencesSchema.omit({ instruction: true, session_id: true });
export type Profile = z.infer<typeof profileSchema>;

export const ceilingSchema = preferencesSchema
  .pick({ max_cost_usd: true, max_latency_ms: true, max_turns: true, privacy: true, regions: true, tools: true })
  .extend({ max_cost_usd_per_day: dollars.optional() });
export type Ceiling = z.infer<typeof ceilingSchema>;
