import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isBilledByTime } from '../cost/rates.ts';
import { OrchestraError } from '../errors.ts';
import { maskSlots, type Needs, paramOfLimit } from '../preferences/limits.ts';
import { isPrivate } from '../preferences/privacy.ts';
import type { RelayResponse } from '../upstream/relay.ts';
import type { JsonObject, RelayPath } from '../upstream/relay-request.ts';
import { type UnwrittenInput, unwrittenIn } from '../upstream/unwritten-input.ts';
import { collectPreferences } from './caller-preferences.ts';
import { routeSchemas } from './docs.ts';
import type { AnswerOnce } from './idempotency.ts';
import type { InFlight, Ticket } from './in-flight.ts';
import type { RelayedModel, RelayedUpstream, ServerParts } from './parts.ts';
import { openCharge, type RelayCharge } from './relay-charge.ts';
import { endFailed, type Relaying } from './relay-failure.ts';
import { type RelayFacts, recordRelay, relayedUsage, relayReport } from './relay-record.ts';
import { passStream } from './relay-stream.ts';
import { budgetHeader, costHeader, limitReport } from './report.ts';
import { modelOf, resolveModel } from './served-models.ts';
import { isStrict } from './strict.ts';
import { sendWhole } from './whole-answer.ts';
import { parseRelayRequest } from './wire.ts';

/** Endpoints that only relays serve. */
export function relayRoutes(app: FastifyInstance, parts: ServerParts, inFlight: InFlight, once: AnswerOnce): void {
  const schemas = { '/embeddings': routeSchemas.embeddings, '/completions': routeSchemas.completions };
  for (const path of ['/embeddings', '/completions'] as const) {
    app.post(`/v1${path}`, { schema: schemas[path] }, async (request, reply) => {
      const name = modelOf(request.body);
      const target = resolveModel(name, parts);
      if (target.kind === 'relay') {
        return once(request, reply, () => answerByRelay(request, reply, parts, inFlight, target, path));
      }
      throw new OrchestraError('invalid_request', `The model \`${name}\` serves /v1/chat/completions only.`, {
        param: 'model',
      });
    });
  }
}

/** The upstream judges what it can do; here only the caller's limits do, and those of money ask what it may bill. */
function needsOf({ unsized, speech, unpriced }: UnwrittenInput, { slot }: RelayedModel): Needs {
  const unpricedSpeech = slot.input.includes('audio') ? undefined : speech;
  const asked = { input: [], clientTools: false, jsonSchema: false, contextTokens: 0 };
  return { ...asked, unsized, unpriced: unpriced ?? unpricedSpeech };
}

/** Passes a request to an upstream: same keys, limits, ledger and record as a run, none of its decisions. */
export async function answerByRelay(
  request: FastifyRequest,
  reply: FastifyReply,
  parts: ServerParts,
  inFlight: InFlight,
  { upstream, model }: { readonly upstream: RelayedUpstream; readonly model: RelayedModel },
  path: RelayPath,
): Promise<FastifyReply> {
  const body = parseRelayRequest(request.body);
  const { caller, headers } = request;
  const slots = [...parts.slots, model.slot];
  const { preferences, warnings } = collectPreferences({ body, headers, caller, slots }, parts);
  const unwritten = unwrittenIn(body);
  checkLimits(model, preferences, needsOf(unwritten, model));
  const runId = `run_${parts.newId()}`;
  const startedAtMs = parts.now();
  const facts = { runId, keyName: caller.name, requestedModel: body.model, model, preferences, warnings, startedAtMs };
  const deadlineMs = deadlineOf(model, preferences, parts);
  const charge = openCharge({ ...facts, path, body, unwritten, bodyBytes: request.bodyBytes, deadlineMs }, parts);
  const ticket = inFlight.openRelay(runId, caller.name, reply);
  const strict = isStrict(request, parts);
  if (!strict) reply.header('x-orchestra-run-id', runId);
  const relaying: Relaying = { parts, reply, facts, charge, ticket, strict };
  const deadline = startDeadline(ticket, deadlineMs);
  try {
    const response = await forward(relaying, upstream, path, boundedBody(body, charge));
    return await pass(relaying, response);
  } finally {
    clearTimeout(deadline);
    ticket.close();
    if (ticket.clientLeft()) request.log.info({ statusCode: 499, runId }, 'client left');
  }
}

function checkLimits({ slot }: RelayedModel, preferences: RelayFacts['preferences'], needs: Needs): void {
  const { admissible, applied } = maskSlots([slot], preferences, needs);
  if (admissible.length > 0) return;
  const [limit] = applied;
  const { limit: name = '', removed = [] } = limit ?? {};
  const reason = removed[0]?.reason ?? 'it is not admitted';
  // A model of known price falls under money only by what the request holds.
  const field = name.startsWith('max_cost_usd') && slot.rates ? (needs.unpriced ?? needs.unsized) : undefined;
  const wayOut = field === undefined ? '' : ' Leave it out, or use a key whose money is not limited.';
  throw new OrchestraError('limits_unsatisfiable', `${name} removed \`${slot.id}\`: ${reason}.${wayOut}`, {
    ...(field === undefined ? paramOfLimit(name) : { param: field }),
    details: { limits: applied.map(limitReport) },
  });
}

const boundedBody = (body: JsonObject, { maxTokens }: RelayCharge): JsonObject =>
  maxTokens === undefined ? body : { ...body, max_tokens: maxTokens };

/** What is billed by the second must end, or nobody could say what it costs at most. */
function deadlineOf({ slot }: RelayedModel, { limits }: RelayFacts['preferences'], parts: ServerParts) {
  const { runTimeoutMs } = parts.limits;
  if (!isBilledByTime(slot.rates)) return limits.maxLatencyMs;
  return Math.min(limits.maxLatencyMs ?? runTimeoutMs, runTimeoutMs);
}

function startDeadline(ticket: Ticket, deadlineMs: number | undefined): NodeJS.Timeout | undefined {
  if (deadlineMs === undefined) return undefined;
  const late = () => new OrchestraError('deadline_exceeded', 'No answer was ready before the deadline.');
  return setTimeout(() => ticket.stop(late()), deadlineMs);
}

async function forward(
  relaying: Relaying,
  { relay }: RelayedUpstream,
  path: RelayPath,
  body: JsonObject,
): Promise<RelayResponse> {
  const { facts, ticket, charge } = relaying;
  const privateTo = isPrivate(facts.preferences.limits.privacy) ? facts.keyName : undefined;
  try {
    const { callTime } = charge;
    const { signal } = ticket;
    return await relay.forward({ path, model: facts.model.upstreamModel, body, privateTo, callTime, signal });
  } catch (thrown) {
    throw endFailed(relaying, thrown, 0);
  }
}

function pass(relaying: Relaying, response: RelayResponse): Promise<FastifyReply> | FastifyReply {
  const { reply, charge, facts, parts, strict } = relaying;
  reply.headers(response.headers);
  if (response.kind === 'stream') return passStream(relaying, response.events);
  if (response.kind === 'rejected') {
    reply.header('content-type', 'application/json; charset=utf-8');
    recordRelay(facts, charge.release(), new OrchestraError('invalid_request', response.failure.message), parts);
    return reply.code(response.status).send(JSON.stringify({ error: response.error }));
  }
  const { body, usage } = response;
  const bill = usage ? charge.settle(usage) : charge.settleEstimated(Buffer.byteLength(JSON.stringify(body)));
  const record = recordRelay(facts, bill, undefined, parts);
  if (!strict) reply.headers({ ...costHeader(record), ...budgetHeader(parts.ledger, facts) });
  const shown = relayedUsage(body['usage'], record, parts, strict);
  const told = JSON.stringify({ ...body, usage: shown, ...relayReport(record, strict) });
  return sendWhole(reply, { body: told, privacy: record.privacy });
}
