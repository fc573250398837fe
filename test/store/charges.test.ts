import fc from 'fast-check';
import { expect, test } from 'vitest';
import { openStores } from './opened.ts';

const dayMs = 86_400_000;
const today = 40;
const someCharges = fc.array(
  fc.record({
    run: fc.integer({ min: 0, max: 5 }),
    day: fc.constantFrom(1, 2, 39, today),
    amountNano: fc.integer({ min: 0, max: 1_000 }),
    end: fc.constantFrom('settle', 'settle', 'release', 'hold'),
  }),
  { minLength: 1, maxLength: 30 },
);

test('pruning forgets what is over, and neither holds, nor what reports and limits still count', () => {
  let pruned = 0;
  fc.assert(
    fc.property(
      someCharges,
      fc.constantFrom(2, 3, 39),
      fc.integer({ min: 0, max: dayMs - 1 }),
      (all, until, offset) => {
        const { charges, spending, database, queue, close } = openStores();
        const runScope = ({ run, day }: { run: number; day: number }) => `run:${day}-${run}`;
        const held = all.flatMap(({ end, amountNano, ...place }) => {
          const scopes = [runScope(place), `day:${place.day}`].map((name) => ({ name, limitNano: 1e9 }));
          const request = { runId: `${place.run}`, keyName: 'one', atMs: place.day * dayMs + 7, amountNano };
          const result = charges.hold({ ...request, keepBackNano: 0, scopes });
          if (!result.held) throw new Error('refused');
          const line = { meter: 'answer-1', usage: { calls: 1, durationMs: 0 }, cost: amountNano };
          if (end === 'settle') charges.settle(result.chargeId, amountNano, JSON.stringify([line]));
          if (end === 'release') charges.release(result.chargeId);
          return end === 'hold' ? [{ ...place, id: result.chargeId, amountNano }] : [];
        });
        const kept = () => [spending.byDay('one', until * dayMs), spending.byMeter('one', until * dayMs)];
        const before = kept();
        const old = all.filter(({ day, end }) => day < until && end !== 'hold').length;
        expect(charges.prune(until * dayMs + offset)).toBe(old);
        pruned += old;
        expect(kept()).toEqual(before);

        queue.flush();
        const scopes = database.prepare('SELECT scope FROM accounts').pluck().all();
        for (const place of all) {
          const isHere = ({ run, day }: { run: number; day: number }) => run === place.run && day === place.day;
          const wasSpent = all.some((one) => isHere(one) && one.end === 'settle' && one.amountNano > 0);
          const stays = held.some(isHere) || place.day >= until;
          expect(scopes.includes(runScope(place))).toBe(wasSpent && stays);
        }
        const spentToday = all.filter(({ day, end }) => day === today && end === 'settle');
        const total = spentToday.reduce((sum, { amountNano }) => sum + amountNano, 0);
        expect(charges.totals(`day:${today}`).spentNano).toBe(total);
        for (const { id, amountNano, ...place } of held) {
          const { heldNano } = charges.totals(runScope(place));
          charges.settle(id, amountNano, '[]');
          expect(charges.totals(runScope(place)).heldNano).toBe(heldNano - amountNano);
        }
        expect(charges.settleAbandoned()).toBe(0);
        close();
      },
    ),
    { numRuns: 80 },
  );
  expect(pruned).toBeGreaterThan(100);
});
