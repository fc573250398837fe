import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { routeSchemas } from './docs.ts';
import type { AnswerOnce } from './idempotency.ts';
import type { InFlight } from './in-flight.ts';
import type { ServerParts } from './parts.ts';
import { answerByRelay } from './relay.ts';
import { prepareRun, type Run } from './run.ts';
import { answerStreamed } from './run-stream.ts';
import { answerWhole } from './run-whole.ts';
import { modelOf, resolveModel } from './served-models.ts';
import { isStrict } from './strict.ts';

const systemFingerprint = 'fp_orchestra1';

export function chatRoutes(app: FastifyInstance, parts: ServerParts, inFlight: InFlight, once: AnswerOnce): void {
  app.post('/v1/chat/completions', { schema: routeSchemas.chat }, async (request, reply) => {
    const target = resolveModel(modelOf(request.body), parts);
    return once(request, reply, () =>
      target.kind === 'run'
        ? answerByRun(request, reply, parts, inFlight, target.profile)
        : answerByRelay(request, reply, parts, inFlight, target, '/chat/completions'),
    );
  });
}

async function answerByRun(
  request: FastifyRequest,
  reply: FastifyReply,
  parts: ServerParts,
  inFlight: InFlight,
  profile: string | undefined,
): Promise<FastifyReply> {
  const { spec, ...prepared } = prepareRun(request, parts, profile);
  const ticket = inFlight.openRun(spec.runId, spec.keyName, reply);
  const strict = isStrict(request, parts);
  if (!strict) reply.header('x-orchestra-run-id', spec.runId);
  const run: Run = { ...prepared, spec: { ...spec, signal: ticket.signal }, parts, reply, ticket, strict };
  const identity = {
    id: `chatcmpl-${parts.newId()}`,
    created: Math.floor(parts.now() / 1000),
    model: spec.requestedModel,
    system_fingerprint: systemFingerprint,
  };
  try {
    return run.chat.stream ? await answerStreamed(run, identity) : await answerWhole(run, identity);
  } finally {
    ticket.close();
    if (ticket.clientLeft()) request.log.info({ statusCode: 499, runId: spec.runId }, 'client left');
  }
}
