import type { FastifyRequest } from 'fastify';
import type { ServerParts } from './parts.ts';

/** Whether this answer may hold nothing that OpenAI's API does not have. */
export const isStrict = (request: FastifyRequest, { strict }: Pick<ServerParts, 'strict'>): boolean =>
  strict || request.headers['x-orchestra-strict'] === '1';
