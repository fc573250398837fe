import type { FastifyInstance } from 'fastify';
import { OrchestraError } from '../errors.ts';
import { isPrivate } from '../preferences/privacy.ts';
import type { RunRecord } from '../router/run.ts';
import type { FoundRun } from '../store/runs.ts';
import type { Caller } from './auth.ts';
import { routeSchemas } from './docs.ts';
import type { InFlight } from './in-flight.ts';
import type { ServerParts } from './parts.ts';
import { feedbackReport, foundReport, listedReport } from './report.ts';
import { feedbackBody, type RunsQuery, runsQuery } from './run-queries.ts';
import { parseStrict } from './strict-object.ts';

interface OneRun {
  Params: { id: string };
}

const path = '/v1/orchestra/runs';

/** What a key did before. Runs of other keys do not exist. */
export function runRoutes(app: FastifyInstance, parts: ServerParts, inFlight: InFlight): void {
  const { runs } = parts;
  const own = (id: string, { name }: Caller): FoundRun => {
    const found = runs.find(id, name);
    if (!found) throw unknownRun(id);
    return found;
  };

  app.get(path, { schema: routeSchemas.runs }, async ({ query, caller }) =>
    listRuns(parseStrict(runsQuery, query), caller, parts),
  );

  app.get<OneRun>(`${path}/:id`, { schema: routeSchemas.run }, async ({ params, caller }) => {
    const found = own(params.id, caller);
    return foundReport(recordOf(found), found);
  });

  app.delete<OneRun>(`${path}/:id`, { schema: routeSchemas.eraseRun }, async ({ params, caller }) => {
    const { id } = own(params.id, caller);
    runs.eraseTexts(id);
    return { run_id: id, texts_erased: true };
  });

  app.post<OneRun>(`${path}/:id/cancel`, { schema: routeSchemas.cancel }, async ({ params, caller }) => {
    if (!inFlight.cancel(params.id, caller.name)) throw unknownRun(params.id, ' at work');
    return { run_id: params.id, status: 'cancelling' };
  });

  app.post<OneRun>(`${path}/:id/feedback`, { schema: routeSchemas.feedback }, async ({ params, body, caller }) => {
    const { score, comment } = parseStrict(feedbackBody, body);
    const found = own(params.id, caller);
    const record = recordOf(found);
    if (comment !== undefined) refuseUnkept(found, record);
    const feedback = { score, comment, atMs: parts.now() };
    const scoreBefore = runs.saveFeedback(found.id, feedback);
    parts.onFeedback?.(record, score, scoreBefore);
    return { run_id: found.id, feedback: feedbackReport(feedback) };
  });
}

/** Written by the router or by a relay, always a RunRecord. */
const recordOf = ({ record }: FoundRun): RunRecord => JSON.parse(record) as RunRecord;

const unknownRun = (id: string, state = '') =>
  new OrchestraError('not_found', `There is no run \`${id.slice(0, 64)}\` of this key${state}.`);

const usualPage = 20;

function listRuns(query: RunsQuery, { name }: Caller, { runs }: ServerParts) {
  const { after, limit = usualPage, model, status, kind, created_after: from, created_before: before } = query;
  const last = after === undefined ? undefined : runs.find(after, name);
  if (after !== undefined && !last) {
    throw new OrchestraError('invalid_request', 'after: there is no such run of this key.', { param: 'after' });
  }
  const filter = { fromMs: milliseconds(from), beforeMs: milliseconds(before), model, status, kind };
  const found = runs.list(name, filter, last, limit + 1);
  const page = found.slice(0, limit);
  return {
    object: 'list',
    data: page.map((run) => listedReport(recordOf(run), run)),
    has_more: found.length > limit,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  };
}

const milliseconds = (seconds: number | undefined) => (seconds === undefined ? undefined : seconds * 1000);

function refuseUnkept({ textsErased }: FoundRun, { privacy }: RunRecord): void {
  const reason = isPrivate(privacy) ? 'this run is private' : textsErased ? 'the texts of this run were erased' : '';
  if (reason === '') return;
  throw new OrchestraError('invalid_request', `comment: ${reason}, so no text is kept; send the score alone.`, {
    param: 'comment',
  });
}
