import type { Observation } from '../contract/evidence.ts';
import { extractQuery, queryFrom, queryMessages } from '../contract/expert-messages.ts';
import type { Contract } from '../contract/schema.ts';
import { type MeteredUsage, noUsage } from '../cost/usage.ts';
import { type PrivacyClass, satisfiesPrivacy, strictestPrivacy } from '../preferences/privacy.ts';
import type { Slot } from '../preferences/slot.ts';
import { type CallTime, createCallTime } from '../upstream/call-time.ts';
import { throwIfCancelled } from './cancelled.ts';
import type { Expert } from './expert.ts';
import { expertReply } from './expert-call.ts';
import { createExpertBound } from './input-bound.ts';
import type { CallLimit } from './limit-parallel.ts';
import { SearchFailure, type SearchRequest, type SearchSource } from './search-source.ts';
import type { Tool, ToolInput, ToolOutcome } from './tool.ts';

export interface SearchToolOptions {
  readonly slot: Slot;
  /** In the order in which they are asked. */
  readonly sources: readonly SearchSource[];
  /** Writes the query. Without one the query is the problem itself, and no outsider gets to see that. */
  readonly writer?: QueryWriter;
  readonly contract: Contract;
  readonly documents?: number;
}

interface QueryWriter {
  readonly slot: Slot;
  readonly expert: Expert;
  /** Shared with the slot's own calls; undefined where it takes any number. */
  readonly limit?: CallLimit | undefined;
}

/** Asks one source after the other until one has something; a failing source is like one that knows nothing. */
export function createSearchTool(options: SearchToolOptions): Tool {
  const { slot, sources, writer, contract, documents: limit = 5 } = options;
  const writerBound = writer && createExpertBound(writer.slot, writer.expert);

  function bound(input: ToolInput): MeteredUsage[] {
    const searches = admitted(sources, input).map((source) => ({
      meter: source.meter,
      usage: { ...source.mostUsage, durationMs: timeOf(source, input.callTime).longestMs },
    }));
    return writer && writerBound ? [writerBound(input, outputTokens(writer, input)), ...searches] : searches;
  }

  async function execute(input: ToolInput): Promise<ToolOutcome> {
    const written = writer && (await writeQuery(writer, input, contract));
    const usage = written?.usage ?? [];
    // What was not asked is not booked, as it would be if a source were cancelled.
    if (input.signal.aborted) return { observation: failed('The run is over.'), usage };
    const query = written?.query ?? queryFrom(input.problem, contract);
    if (query === undefined) return { observation: failed('There is nothing to search for.'), usage };
    const open = admitted(sources, input, written?.query === undefined ? ownMachines : 'any');
    const asked = await askInTurn(open, { query, limit, signal: input.signal }, input.callTime);
    return { observation: asked.observation, usage: [...usage, ...asked.usage] };
  }

  return {
    slot,
    bound,
    // biome-ignore lint/correctness/useYield: only answers are streamed
    async *execute(input) {
      return execute(input);
    },
  };
}

/** The class from which on a source may see the client's own words as a query. */
const ownMachines = 'self_hosted';

const admitted = (sources: readonly SearchSource[], input: ToolInput, least: PrivacyClass = 'any') =>
  sources.filter(
    ({ name, privacy }) =>
      input.admitsSource(name) && satisfiesPrivacy(privacy, strictestPrivacy(input.privacy, least)),
  );

const failed = (reason: string, retryable = false): Observation => ({ kind: 'failed', reason, retryable });

const outputTokens = ({ slot }: QueryWriter, { maxOutputTokens }: ToolInput): number =>
  Math.min(maxOutputTokens, slot.maxOutputTokens);

interface WrittenQuery {
  /** Missing when the writer failed to write one, or had no time for it. */
  readonly query: string | undefined;
  readonly usage: readonly MeteredUsage[];
}

/** Undefined when this writer may not see the run. */
async function writeQuery(
  writer: QueryWriter,
  input: ToolInput,
  contract: Contract,
): Promise<WrittenQuery | undefined> {
  if (!satisfiesPrivacy(writer.slot.privacy, input.privacy)) return undefined;
  if (!writer.limit) return askWriter(writer, input, contract);
  const leave = await writer.limit.enter(input.signal);
  if (!leave) return { query: undefined, usage: [] };
  try {
    return await askWriter(writer, input, contract);
  } finally {
    leave();
  }
}

async function askWriter(writer: QueryWriter, input: ToolInput, contract: Contract): Promise<WrittenQuery> {
  const maxOutputTokens = outputTokens(writer, input);
  const material = { ...input, contextTokens: writer.slot.contextTokens, maxOutputTokens };
  const messages = queryMessages(material, contract);
  const { privateTo, callTime, signal } = input;
  const request = { messages, maxOutputTokens, options: {}, privateTo, callTime, signal };
  const reply = await expertReply(writer.expert, request, writer.slot);
  return { query: reply.failure ? undefined : extractQuery(reply.text, contract), usage: [reply.usage] };
}

async function askInTurn(
  sources: readonly SearchSource[],
  request: SearchRequest,
  callTime: CallTime,
): Promise<{ readonly observation: Observation; readonly usage: readonly MeteredUsage[] }> {
  const usage: MeteredUsage[] = [];
  const failures: SearchFailure[] = [];
  for (const source of sources) {
    const time = timeOf(source, callTime);
    try {
      const found = await timed(() => source.search(request), time, callTime);
      const estimated = found.estimated === undefined ? {} : { estimated: found.estimated };
      usage.push({ meter: source.meter, usage: { ...found.usage, durationMs: time.ms() }, ...estimated });
      if (found.documents.length > 0) {
        return { observation: { kind: 'documents', documents: found.documents }, usage };
      }
    } catch (thrown) {
      throwIfCancelled(request.signal);
      if (!(thrown instanceof SearchFailure)) throw thrown;
      failures.push(thrown);
      const consumed = { ...(thrown.usage ?? noUsage), durationMs: time.ms() };
      usage.push({ meter: source.meter, usage: consumed, estimated: thrown.usage !== undefined });
    }
  }
  return { observation: nothingFound(sources, failures), usage };
}

/** One search of all that a call does. */
const timeOf = ({ longestMs = Number.POSITIVE_INFINITY }: SearchSource, callTime: CallTime): CallTime =>
  createCallTime(Math.min(longestMs, callTime.longestMs));

async function timed<Result>(task: () => Promise<Result>, ...times: readonly CallTime[]): Promise<Result> {
  for (const time of times) time.start();
  try {
    return await task();
  } finally {
    for (const time of times) time.stop();
  }
}

function nothingFound(sources: readonly SearchSource[], failures: readonly SearchFailure[]): Observation {
  if (sources.length === 0) return failed('No search source may see this request.');
  if (failures.length === 0) return failed('The search found nothing.');
  const reasons = failures.map(({ message }) => message).join(' ');
  return failed(
    reasons,
    failures.some(({ retryable }) => retryable),
  );
}
