import type { FastifyReply } from 'fastify';
import type { PrivacyClass } from '../preferences/privacy.ts';

/** An answer that went out in one piece, and could go out again. */
export interface WholeAnswer {
  readonly body: string;
  /** Least class that might see the run. */
  readonly privacy: PrivacyClass;
}

declare module 'fastify' {
  interface FastifyReply {
    /** Set once a whole answer was sent; never for streams and failures. */
    whole: WholeAnswer | undefined;
  }
}

export function sendWhole(reply: FastifyReply, answer: WholeAnswer): FastifyReply {
  reply.whole = answer;
  reply.header('content-type', 'application/json; charset=utf-8');
  return reply.send(answer.body);
}
