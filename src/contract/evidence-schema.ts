import { z } from 'zod';
import { privacyClasses } from '../preferences/privacy.ts';
import type { Evidence, EvidenceDocument, Observation } from './evidence.ts';
import { type Decision, malformedReasons } from './parse.ts';
import { contractRoles } from './schema.ts';

/** The wire form of what a run learns and decides: traces and golden vectors are checked against it. */

const documentSchema: z.ZodType<EvidenceDocument> = z.strictObject({
  text: z.string(),
  source: z.string(),
  title: z.string().exactOptional(),
  url: z.string().exactOptional(),
  privacy: z.enum(privacyClasses),
});

const codeRunSchema = z.strictObject({ code: z.string(), output: z.string() });

const attemptId = z.string().regex(/^attempt-[1-9][0-9]*$/);

export const evidenceSchema: z.ZodType<Evidence> = z.strictObject({
  documents: z.array(documentSchema),
  codeRuns: z.array(codeRunSchema),
  attempts: z.array(
    z.strictObject({ id: attemptId, slot: z.string(), text: z.string(), agreesWith: attemptId.exactOptional() }),
  ),
});

export const observationSchema: z.ZodType<Observation> = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('documents'), documents: z.array(documentSchema) }),
  z.strictObject({ kind: z.literal('code_run'), run: codeRunSchema }),
  z.strictObject({ kind: z.literal('attempt'), slot: z.string(), text: z.string() }),
  z.strictObject({ kind: z.literal('answer'), text: z.string() }),
  z.strictObject({
    kind: z.literal('failed'),
    reason: z.string(),
    retryable: z.boolean(),
    failure: z.string().exactOptional(),
    retryAfterMs: z.number().exactOptional(),
  }),
]);

export const decisionSchema: z.ZodType<Decision> = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('call'), role: z.enum(contractRoles), slot: z.string() }),
  z.strictObject({ kind: z.literal('malformed'), reason: z.enum(malformedReasons) }),
]);
