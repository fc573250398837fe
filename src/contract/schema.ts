import { z } from 'zod';
import { privacyClasses } from '../preferences/privacy.ts';
import { slotRoles } from '../preferences/slot.ts';

/** The shape of `models/contract`. Keys of the tool JSON stand in the trained order: it reaches the prompt as parsed. */

const count = z.int().positive();

export const contractNames = ['slots-1', 'slots-2'] as const;
export type ContractName = (typeof contractNames)[number];

/** Every contract that a policy can be trained on: the two that show the whole roster, and the one that asks by card. */
export const servedContracts = [...contractNames, 'beliefs-1'] as const;
export type ServedContract = (typeof servedContracts)[number];

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

const rises = (values: readonly number[]): boolean =>
  values.every((value, index) => index === 0 || value > (values[index - 1] ?? value));

/** One value a grade, rising, so that a better grade never stands for less. */
const gradeValues = (least: number, most: number) =>
  z.array(z.number().min(least).max(most)).length(5).refine(rises, 'rises');

export const beliefTextsSchema = z.strictObject({
  name: z.literal('beliefs-1'),
  system: z.string(),
  card: z.string().includes('{sentence}'),
  sentence: z.string().includes('{quality}').includes('{skills}'),
  /** How measured skills are told. Where there are none, nothing is. */
  skills: z.strictObject({
    sentence: z.string().includes('{skills}'),
    /** Chances from which on the next phrase holds, rising. */
    edges: z.array(z.number().min(0).max(1)).length(4).refine(rises, 'rises'),
    /** Worst first. */
    phrases: z.array(z.string().includes('{domain}')).length(5),
    separator: z.string(),
    /** Most that are told, in the order in which they were written. */
    domains: count,
  }),
  questions: z.strictObject({ answer: z.string(), search: z.string(), enhance_reasoning: z.string() }),
  wish: z.string().includes('{instruction}'),
  wishes: axes(z.string()),
  /** Worst first; each one token of the policies that are trained on them. */
  grades: z.array(z.string().min(1)).length(5),
  /** Chance of a right answer that each grade stands for. */
  chances: gradeValues(0, 1),
  /** Factor on the chances of the answers after a search or a calculation. */
  gains: gradeValues(1, 10),
  /** What a wish is worth as a weight of a preference. */
  weights: gradeValues(0, 1),
  /** Log-odds by which a problem may be easier than it looks, equally likely. */
  levels: z.array(z.number()).min(1),
  /** Of the softmax over utilities. */
  temperature: z.number().positive(),
});

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
    standardLibrary: z.string(),
    /** `{libraries}`: what a program finds installed. */
    codeTask: z.string().includes('{libraries}'),
  }),
});

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

/** What all contracts have in common, frozen, with the hash that traces carry. */
export type SharedTexts = DeepReadonly<z.infer<typeof sharedTextsSchema>> & {
  /** SHA-256 of the whole contract folder, hex. */
  readonly hash: string;
};

/** All texts and numbers of `slots-1` or `slots-2`. */
export type Contract = SharedTexts & DeepReadonly<z.infer<typeof roleTextsSchema>>;

/** All texts and numbers of `beliefs-1`. */
export type BeliefsContract = SharedTexts & DeepReadonly<z.infer<typeof beliefTextsSchema>>;
