import { z } from 'zod';
import { privacyClasses } from '../preferences/privacy.ts';
import { slotRoles } from '../preferences/slot.ts';

/** The shape of `models/contract`. Keys of the tool JSON stand in the trained order: it reaches the prompt as parsed. */

const count = z.int().positive();

export const contractNames = ['slots-1', 'slots-2'] as const;
export type ContractName = (typeof contractNames)[number];

/** What a decision is about. `attempt` uses answer slots; delivering an attempt is an `answer` (`slots-2`). */
export const contractRoles = [...slotRoles, 'attempt'] as const;
export type ContractRole = (typeof contractRoles)[number];

const toolSchema = z.strictObject({
  type: z.literal('function'),
  function: z.strictObject({
    name: z.string().regex(/^[a-z_]+$/),
    description: z.string(),
    parameters: z.strictObject({
      properties: z.strictObject({
        model: z.strictObject({ description: z.string().includes('{slots}'), type: z.literal('string') }),
      }),
      required: z.tuple([z.literal('model')]),
      title: z.literal('parameters'),
      type: z.literal('object'),
    }),
  }),
});

export const roleTextsSchema = z.strictObject({
  name: z.enum(contractNames),
  system: z.string(),
  closing: z.string(),
  functions: z.array(z.strictObject({ role: z.enum(contractRoles), tool: toolSchema })).min(1),
});

const axes = <T extends z.ZodType>(value: T) =>
  z.strictObject({ quality: value, cost: value, latency: value, privacy: value });

export const sharedTextsSchema = z.strictObject({
  version: count,
  chat: z.strictObject({
    /** Every text that may become a control token where we wrote it; elsewhere it stays plain text. */
    controlTags: z.array(z.string().min(1)).min(1),
    systemOpen: z.string(),
    toolsOpen: z.string(),
    toolsClose: z.string(),
    userOpen: z.string(),
    turnClose: z.string(),
    assistantOpen: z.string(),
    thoughtOpen: z.string(),
    thoughtClose: z.string(),
    callOpen: z.string(),
    callClose: z.string(),
  }),
  labels: z.strictObject({
    conversation: z.string(),
    problem: z.string(),
    documents: z.string(),
    document: z.string(),
    codeOpen: z.string(),
    outputOpen: z.string(),
    fenceClose: z.string(),
    attempt: z.string(),
    agreement: z.string(),
    ellipsis: z.string(),
  }),
  slotText: z.strictObject({
    choices: z.string(),
    sentence: z.string(),
    table: z.string(),
    row: z.string(),
    unknownPrice: z.string(),
    deliver: z.string(),
    places: z.record(z.enum(privacyClasses), z.string()),
  }),
  budgets: z.strictObject({
    /** Context for which the token budgets are written; smaller contexts scale them down. */
    referenceContextTokens: count,
    codePointsPerToken: count,
    /** Conversation, problem and evidence together. */
    promptTokens: count,
    problemTokens: count,
    conversationTokens: count,
    codeAndAttemptsTokens: count,
    attemptsTokens: count,
    attempts: count,
    codeRuns: count,
    documentCodePoints: count,
  }),
  tilt: z.strictObject({
    lambda: z.number().nonnegative(),
    costUsd: z.number().positive(),
    latencyMs: z.number().positive(),
  }),
  preference: z.strictObject({
    smallShare: z.number(),
    largeShare: z.number(),
    balanced: axes(z.number()),
    axes: axes(z.string()),
    large: z.string(),
    medium: z.string(),
    small: z.string(),
    and: z.string(),
    instruction: z.string(),
  }),
  expert: z.strictObject({
    observations: z.string(),
    /** Label of a document whose title or address is known. */
    documentFrom: z.string(),
    documentTitleCodePoints: count,
    documentUrlCodePoints: count,
    queryTask: z.string(),
    queryOpen: z.string(),
    queryClose: z.string(),
    queryCodePoints: count,
    codeTask: z.string(),
  }),
});

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

/** All texts and numbers of one contract, frozen, with the hash that traces carry. */
export type Contract = DeepReadonly<z.infer<typeof sharedTextsSchema> & z.infer<typeof roleTextsSchema>> & {
  /** SHA-256 of the whole contract folder, hex. */
  readonly hash: string;
};
