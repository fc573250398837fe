import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { countCodePoints, keepHead, keepTail, wellFormed } from '../../src/contract/code-points.ts';
import { keepNewest, promptBudgets } from '../../src/contract/cut.ts';
import type { Evidence } from '../../src/contract/evidence.ts';
import { evidenceText } from '../../src/contract/evidence-text.ts';
import { answerMessages } from '../../src/contract/expert-messages.ts';
import { dumpJson, type Json } from '../../src/contract/json.ts';
import { loadContract } from '../../src/contract/load.ts';
import { parseDecision } from '../../src/contract/parse.ts';
import { choiceSegments, renderPrompt, thoughtSegments } from '../../src/contract/render.ts';
import { contractNames } from '../../src/contract/schema.ts';
import { joinSegments } from '../../src/contract/segment.ts';
import { slotCard } from '../../src/contract/slot-card.ts';
import { freeRates } from '../../src/cost/rates.ts';

const contract = loadContract('slots-2');
const tags = contract.chat.controlTags;

/** Any UTF-16, lone surrogates included, mixed with everything that could be taken for markup. */
const hostile = fc
  .array(fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom(...tags, '```', '````', '\n', '\ud83d', '\ude00')), {
    maxLength: 12,
  })
  .map((pieces) => pieces.join(''));

const evidence: fc.Arbitrary<Evidence> = fc.record({
  documents: fc.array(fc.record({ text: hostile, source: fc.constant('docs'), privacy: fc.constant('any' as const) }), {
    maxLength: 4,
  }),
  codeRuns: fc.array(fc.record({ code: hostile, output: hostile }), { maxLength: 4 }),
  attempts: fc
    .array(hostile, { maxLength: 4 })
    .map((texts) => texts.map((text, index) => ({ id: `attempt-${index + 1}`, slot: 'answer-1', text }))),
});

const card = (id: string, quality: string) =>
  slotCard({ id, quality, rates: freeRates, latencyMs: 1000, privacy: 'local' }, contract);

describe('a cut', () => {
  test('never exceeds its limit and keeps the tail', () => {
    fc.assert(
      fc.property(hostile, fc.nat(200), (text, limit) => {
        const kept = keepTail(text, limit);
        expect(countCodePoints(kept)).toBe(Math.min(limit, countCodePoints(text)));
        expect(text.endsWith(kept)).toBe(true);
      }),
    );
  });

  test('with a mark never exceeds its limit either', () => {
    fc.assert(
      fc.property(hostile, fc.nat(200), (text, limit) => {
        const kept = keepHead(text, limit, ' ...');
        expect(countCodePoints(kept)).toBe(Math.min(limit, countCodePoints(text)));
      }),
    );
  });

  test('never splits a surrogate pair', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }).map(wellFormed), fc.nat(50), (text, limit) => {
        expect(wellFormed(keepTail(text, limit))).toBe(keepTail(text, limit));
        expect(wellFormed(keepHead(text, limit))).toBe(keepHead(text, limit));
      }),
    );
  });

  test('of blocks never exceeds its limit and keeps every fence', () => {
    const block = hostile.map((body) => ({ open: '<open>', body, close: '<close>' }));
    fc.assert(
      fc.property(fc.array(block), fc.nat(300), (blocks, limit) => {
        const kept = keepNewest(blocks, limit);
        expect(countCodePoints(kept)).toBeLessThanOrEqual(limit);
        expect(kept === '' || (kept.startsWith('<open>') && kept.endsWith('<close>'))).toBe(true);
      }),
    );
  });

  test('of evidence never exceeds its limit', () => {
    fc.assert(
      fc.property(evidence, fc.nat(2000), (known, limit) => {
        expect(countCodePoints(evidenceText(known, limit, contract))).toBeLessThanOrEqual(limit);
      }),
    );
  });
});

describe('a rendered prompt', () => {
  const promptInput = fc.record({
    problem: hostile,
    conversation: hostile,
    preference: hostile,
    evidence,
    contextTokens: fc.integer({ min: 64, max: 100_000 }),
    choices: fc
      .array(hostile, { minLength: 1, maxLength: 3 })
      .map((texts) => texts.map((text, index) => ({ role: 'answer' as const, card: card(`answer-${index}`, text) }))),
  });
  const expectedMarkup = [
    '<|im_start|>',
    '<tool_call>',
    '</tool_call>',
    '<tool_call>',
    '</tool_call>',
    '<|im_end|>',
    '<|im_start|>',
    '<|im_end|>',
    '<|im_start|>',
  ];

  test('has the same markup whatever anybody wrote', () => {
    fc.assert(
      fc.property(promptInput, (input) => {
        const segments = renderPrompt(input, contract);
        expect(segments.filter(({ kind }) => kind === 'markup').map(({ text }) => text)).toEqual(expectedMarkup);
      }),
    );
  });

  test('is well-formed Unicode', () => {
    fc.assert(
      fc.property(promptInput, (input) => {
        const text = joinSegments(renderPrompt(input, contract));
        expect(wellFormed(text)).toBe(text);
      }),
    );
  });

  test('grows by no more than its budget beside the fixed frame and the preference', () => {
    fc.assert(
      fc.property(promptInput, (input) => {
        const size = (part: Partial<typeof input>) =>
          countCodePoints(joinSegments(renderPrompt({ ...input, ...part }, contract)));
        const nothing = { documents: [], codeRuns: [], attempts: [] };
        const frame = size({ problem: '', conversation: '', evidence: nothing });
        const labels = countCodePoints(contract.labels.conversation) + 2;
        const budget = promptBudgets(input.contextTokens, contract).prompt;
        expect(size({})).toBeLessThanOrEqual(frame + labels + budget);
      }),
    );
  });

  test('shows two different short problems differently', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (left, right) => {
        fc.pre(left !== right);
        const text = (problem: string) =>
          joinSegments(
            renderPrompt(
              {
                problem,
                conversation: '',
                preference: '',
                evidence: { documents: [], codeRuns: [], attempts: [] },
                choices: [{ role: 'answer', card: card('answer-1', 'good') }],
                contextTokens: 40960,
              },
              contract,
            ),
          );
        expect(text(left)).not.toBe(text(right));
      }),
    );
  });
});

test.each(contractNames)('reading a rendered choice gives the choice back (%s)', (name) => {
  const loaded = loadContract(name);
  const { open, close } = thoughtSegments(loaded);
  const roles = loaded.functions.map(({ role }) => role);
  fc.assert(
    fc.property(
      fc.constantFrom(...roles),
      fc.string({ minLength: 1 }).map(wellFormed),
      fc.string(),
      (role, slot, idea) => {
        const thought = idea.replaceAll('</think>', '');
        const said = joinSegments([
          open,
          { kind: 'text', text: thought },
          close,
          ...choiceSegments(role, slot, loaded),
        ]);
        const decision = { kind: 'call', role, slot };
        expect(parseDecision(said, loaded, [{ role, slot }])).toEqual(decision);
        expect(parseDecision(joinSegments(choiceSegments(role, slot, loaded)), loaded, [{ role, slot }])).toEqual(
          decision,
        );
      },
    ),
  );
});

test('any text at all is read as a decision or as malformed, never an exception', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(hostile, fc.json(), fc.constantFrom('{"name": "', '"model"', '}')), { maxLength: 8 }),
      (pieces) => {
        const { kind } = parseDecision(pieces.join(''), contract, [{ role: 'search', slot: 'search-1' }]);
        expect(['call', 'malformed']).toContain(kind);
      },
    ),
  );
});

test('dumped JSON reads back as what was dumped', () => {
  const json = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.string({ unit: 'binary' }),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie('value')),
      fc.dictionary(fc.string(), tie('value'), { noNullPrototype: true }),
    ),
  })).value;
  fc.assert(
    fc.property(json, (value) => {
      expect(JSON.parse(dumpJson(value))).toEqual(value);
    }),
  );
});

describe('the observations an expert gets', () => {
  test('cannot close their fence', () => {
    fc.assert(
      fc.property(evidence, (known) => {
        const [message] = answerMessages(
          { messages: [{ role: 'user', content: 'Hi' }], evidence: known, contextTokens: 8000, maxOutputTokens: 1000 },
          contract,
        );
        const lines = String(message?.content).split('\n');
        const fence = lines.at(-1) ?? '';
        fc.pre(lines.length > 1);
        expect(fence).toMatch(/^`{3,}$/);
        const body = lines.slice(lines.indexOf(fence) + 1, -1).join('\n');
        expect(lines.filter((line) => line === fence)).toHaveLength(2);
        expect(body).not.toContain(fence);
      }),
    );
  });

  test('leave the expert its output', () => {
    const text = (limit: number) => 'y'.repeat(limit);
    fc.assert(
      fc.property(evidence, fc.integer({ min: 300, max: 4000 }), fc.nat(300), (known, contextTokens, asked) => {
        const messages = [{ role: 'user' as const, content: text(asked) }];
        const sent = answerMessages({ messages, evidence: known, contextTokens, maxOutputTokens: 100 }, contract);
        const size = countCodePoints(String(sent[0]?.content));
        expect(size).toBeLessThanOrEqual(Math.max(asked, (contextTokens - 100) * 3));
      }),
    );
  });
});
