import type { FastifyInstance } from 'fastify';
import { OrchestraError } from '../errors.ts';
import type { Slot } from '../preferences/slot.ts';
import { routeSchemas } from './docs.ts';
import type { InFlight } from './in-flight.ts';
import { pricing } from './models.ts';
import type { ServerParts, SlotHealth } from './parts.ts';
import { decideReport } from './report.ts';
import { prepareRun } from './run.ts';
import { runRoutes } from './run-history.ts';
import { modelOf, resolveModel } from './served-models.ts';
import { usageRoutes } from './usage.ts';

/** Our own endpoints, all under `/v1/orchestra`. */
export function orchestraRoutes(app: FastifyInstance, parts: ServerParts, inFlight: InFlight): void {
  app.get('/v1/orchestra/slots', { schema: routeSchemas.slots }, async () => ({
    object: 'list',
    data: parts.slots.map((slot) => slotReport(slot, parts.slotHealth(slot.id))),
  }));

  runRoutes(app, parts, inFlight);
  usageRoutes(app, parts);

  app.post('/v1/orchestra/decide', { schema: routeSchemas.decide }, async (request, reply) => {
    const name = modelOf(request.body);
    const target = resolveModel(name, parts);
    if (target.kind === 'relay') {
      throw new OrchestraError('invalid_request', `\`${name}\` is relayed; there is nothing to decide.`, {
        param: 'model',
      });
    }
    const { spec, warnings } = prepareRun(request, parts, target.profile);
    const ticket = inFlight.openRun(spec.runId, spec.keyName, reply);
    try {
      const report = await parts.orchestrator.decide({ ...spec, signal: ticket.signal });
      return decideReport({ ...report, warnings: [...warnings, ...report.warnings] }, spec.preferences);
    } finally {
      ticket.close();
    }
  });
}

const slotReport = (slot: Slot, health: SlotHealth) => ({
  id: slot.id,
  role: slot.role,
  model: slot.model,
  upstream: slot.upstream,
  tools: slot.tools,
  quality: slot.quality,
  skills: slot.skills,
  pricing: slot.rates ? pricing(slot.rates) : null,
  latency_ms: slot.latencyMs,
  privacy: slot.privacy,
  regions: slot.regions,
  context_length: slot.contextTokens,
  max_output: slot.maxOutputTokens,
  input: slot.input,
  client_tools: slot.clientTools,
  json_schema: slot.jsonSchema,
  health,
});
