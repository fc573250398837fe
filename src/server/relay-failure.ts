import type { FastifyReply } from 'fastify';
import { OrchestraError, toOrchestraError } from '../errors.ts';
import { type FailureKind, UpstreamFailure } from '../upstream/chat.ts';
import type { Ticket } from './in-flight.ts';
import type { ServerParts } from './parts.ts';
import type { Bill, RelayCharge } from './relay-charge.ts';
import { type RelayFacts, recordRelay } from './relay-record.ts';

/** One relayed request at work. */
export interface Relaying {
  readonly parts: ServerParts;
  readonly reply: FastifyReply;
  readonly facts: RelayFacts;
  readonly charge: RelayCharge;
  readonly ticket: Ticket;
  readonly strict: boolean;
}

/** After these the upstream bills nothing: it refused, or never answered for itself. */
const unbilled: readonly FailureKind[] = [
  'rate_limited',
  'server_error',
  'unauthorized',
  'context_length_exceeded',
  'rejected',
  'schema_refused',
  'connection',
];

/** Whether a call that failed before its first byte can have cost anything. */
const mayBeBilled = (thrown: unknown): boolean =>
  !(thrown instanceof UpstreamFailure) || !unbilled.includes(thrown.kind);

/** What the client of a relay is told: the upstream by name, never its host, and a bad key of ours is not its 401. */
function relayFailure(thrown: unknown, upstreamName: string): OrchestraError {
  if (!(thrown instanceof UpstreamFailure)) return toOrchestraError(thrown);
  const message = `Upstream \`${upstreamName}\` failed: ${thrown.message}`;
  const options = { cause: thrown, details: { upstream: upstreamName, kind: thrown.kind } };
  if (thrown.kind === 'rate_limited') {
    const wait = thrown.retryAfterMs === undefined ? {} : { retryAfterMs: thrown.retryAfterMs };
    return new OrchestraError('rate_limited', message, { ...options, ...wait });
  }
  if (thrown.kind === 'context_length_exceeded') {
    return new OrchestraError('context_length_exceeded', message, { ...options, param: 'messages' });
  }
  return new OrchestraError('upstream_failed', message, options);
}

/** Books what a failed relay may have cost, records it and returns what the client is told. */
export function endFailed(relaying: Relaying, thrown: unknown, writtenBytes: number): OrchestraError {
  const { charge, facts, ticket, reply, parts } = relaying;
  const error = ticket.stoppedBy() ?? relayFailure(thrown, facts.model.slot.upstream);
  const bill = billOfFailure(charge, thrown, writtenBytes);
  recordRelay(facts, bill, error, parts);
  if (bill.cost > 0 && !reply.raw.headersSent) reply.header('x-should-retry', 'false');
  return error;
}

function billOfFailure(charge: RelayCharge, thrown: unknown, writtenBytes: number): Bill {
  const reported = thrown instanceof UpstreamFailure ? thrown.usage : undefined;
  if (reported) return charge.settle(reported);
  return writtenBytes > 0 || mayBeBilled(thrown) ? charge.settleEstimated(writtenBytes) : charge.release();
}
