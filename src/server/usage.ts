import type { FastifyInstance } from 'fastify';
import { floorUsdToNano, type NanoUsd, nanoUsd, toUsdNumber } from '../cost/money.ts';
import type { PriceBook } from '../cost/price-book.ts';
import { mergePreferences } from '../preferences/request.ts';
import type { MeterSpending } from '../store/spending.ts';
import type { Caller } from './auth.ts';
import { routeSchemas } from './docs.ts';
import type { ServerParts } from './parts.ts';
import { usageQuery } from './run-queries.ts';
import { parseStrict } from './strict-object.ts';

const dayMs = 86_400_000;

/** What a key spent and what it may spend, from the ledger's own rows. */
export function usageRoutes(app: FastifyInstance, parts: ServerParts): void {
  app.get('/v1/orchestra/usage', { schema: routeSchemas.usage }, async ({ query, caller }) => {
    const { since = 1 } = parseStrict(usageQuery, query);
    return usageReport(caller, since, parts);
  });
}

function usageReport(caller: Caller, dayCount: number, parts: ServerParts) {
  const { spending, prices, now } = parts;
  const todayMs = Math.floor(now() / dayMs) * dayMs;
  const sinceMs = todayMs - (dayCount - 1) * dayMs;
  const days = spending.byDay(caller.name, sinceMs);
  const meters = mergeNamesakes(spending.byMeter(caller.name, sinceMs), prices);
  const total = sum(days.map(({ spentNano }) => spentNano));
  const abandoned = sum(days.map(({ abandonedNano }) => abandonedNano));
  return {
    object: 'orchestra.usage',
    currency: 'USD',
    since: sinceMs / 1000,
    total: toUsdNumber(total),
    ...(meters.some(({ callsOfUnknownPrice }) => callsOfUnknownPrice > 0) ? { unknown_prices: true } : {}),
    ...(abandoned > 0 ? { abandoned: toUsdNumber(abandoned) } : {}),
    windows: windowsOf(
      caller,
      parts,
      todayMs,
      days.find((day) => day.dayMs === todayMs),
    ),
    by_day: days.map(({ dayMs: at, spentNano }) => ({ date: dateOf(at), cost: spentNano / 1e9 })),
    by_model: meters.filter(({ kind }) => kind !== 'tool').map(modelLine),
    by_tool: meters.filter(({ kind }) => kind === 'tool').map(toolLine),
  };
}

const sum = (amounts: readonly number[]): NanoUsd => nanoUsd(amounts.reduce((total, amount) => total + amount, 0));
const dateOf = (instantMs: number): string => new Date(instantMs).toISOString().slice(0, 10);

/** Where a limit holds: one request, and one UTC day. */
function windowsOf(
  { ceiling }: Caller,
  parts: Pick<ServerParts, 'defaultPreferences' | 'profiles'>,
  todayMs: number,
  today: { readonly spentNano: number; readonly heldNano: number } | undefined,
) {
  const { spentNano = 0, heldNano = 0 } = today ?? {};
  const { maxCost } = mergePreferences(
    [{ source: 'default', preferences: parts.defaultPreferences }],
    parts.profiles,
    ceiling,
  ).limits;
  const perDay = ceiling.max_cost_usd_per_day;
  const left = perDay === undefined ? null : Math.max(0, floorUsdToNano(perDay) - spentNano - heldNano) / 1e9;
  return {
    request: { limit: maxCost === undefined ? null : toUsdNumber(maxCost) },
    day: {
      limit: perDay ?? null,
      spent: spentNano / 1e9,
      held: heldNano / 1e9,
      remaining: left,
      resets_at: todayMs / 1000 + dayMs / 1000,
    },
  };
}

/** A meter that the configuration no longer has keeps its own name. */
function namesOf({ meter }: MeterSpending, prices: PriceBook) {
  const price = prices.get(meter);
  return { label: price?.label ?? meter, kind: price?.kind ?? (meter.startsWith('tool:') ? 'tool' : 'model') };
}

type NamedSpending = MeterSpending & ReturnType<typeof namesOf>;

/** Several slots may stand for one model. */
function mergeNamesakes(meters: readonly MeterSpending[], prices: PriceBook): NamedSpending[] {
  const named = new Map<string, NamedSpending>();
  for (const meter of meters) {
    const names = namesOf(meter, prices);
    const before = named.get(names.label);
    named.set(names.label, { ...(before ? addSpending(before, meter) : meter), ...names });
  }
  return [...named.values()];
}

const addSpending = (left: MeterSpending, right: MeterSpending): MeterSpending => ({
  meter: left.meter,
  calls: left.calls + right.calls,
  inputTokens: left.inputTokens + right.inputTokens,
  cachedTokens: left.cachedTokens + right.cachedTokens,
  outputTokens: left.outputTokens + right.outputTokens,
  durationMs: left.durationMs + right.durationMs,
  costNano: sum([left.costNano, right.costNano]),
  callsOfUnknownPrice: left.callsOfUnknownPrice + right.callsOfUnknownPrice,
});

const costOf = ({ costNano, callsOfUnknownPrice }: MeterSpending) =>
  callsOfUnknownPrice > 0 ? { cost: null, known_part: costNano / 1e9 } : { cost: costNano / 1e9 };

const modelLine = (line: NamedSpending) => ({
  model: line.label,
  calls: line.calls,
  input_tokens: line.inputTokens,
  cached_tokens: line.cachedTokens,
  output_tokens: line.outputTokens,
  ...costOf(line),
});

const toolLine = (line: NamedSpending) => ({
  tool: line.label,
  calls: line.calls,
  duration_ms: line.durationMs,
  ...costOf(line),
});
