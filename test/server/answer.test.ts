import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createAnswer } from '../../src/server/answer.ts';
import type { ChatDelta } from '../../src/upstream/chat.ts';

let minted = 0;
const newId = () => {
  minted += 1;
  return `id${String(minted).padStart(22, '0')}`;
};

const pieces = fc.array(fc.string({ unit: 'binary', maxLength: 6 }), { maxLength: 8 });
const textDelta = (text: string): ChatDelta => ({ type: 'text', text });
const halves = (text: string) =>
  [...text].flatMap((sign) => (sign.length === 2 ? [sign.slice(0, 1), sign.slice(1)] : sign));

test('however a text is split, what goes out is well-formed piece by piece and the same in total', () => {
  fc.assert(
    fc.property(pieces, (texts) => {
      const whole = texts.join('');
      const answer = createAnswer({ oneToolCall: false, newId });
      const out = [...halves(whole).map(textDelta).flatMap(answer.accept), ...answer.finish()];
      const sent = out.map((delta) => (delta.type === 'text' ? delta.text : ''));
      for (const piece of sent) expect(piece).not.toMatch(/\p{Surrogate}/u);
      expect(sent.join('')).toBe(whole.replace(/\p{Surrogate}/gu, '\ufffd'));
      expect(answer.text()).toBe(sent.join(''));
    }),
  );
});

test('calls come out dense, named once and with arguments that join up, however they are interleaved', () => {
  const delta = fc.record({ index: fc.constantFrom(2, 5, 9), argumentsDelta: fc.string({ maxLength: 4 }) });
  fc.assert(
    fc.property(fc.array(delta), (deltas) => {
      const answer = createAnswer({ oneToolCall: false, newId });
      const named = deltas.map((one) => ({ type: 'tool_call' as const, id: 'same', name: `f${one.index}`, ...one }));
      const out = [...named.flatMap((one) => answer.accept(one)), ...answer.finish()].filter(
        (one) => one.type === 'tool_call',
      );
      const seen = [...new Set(deltas.map(({ index }) => index))];
      expect(out.filter(({ id }) => id !== undefined).map(({ index, name }) => [index, name])).toEqual(
        seen.map((index, position) => [position, `f${index}`]),
      );
      answer.toolCalls().forEach(({ function: called }, position) => {
        const given = deltas
          .filter(({ index }) => index === seen[position])
          .map(({ argumentsDelta }) => argumentsDelta);
        expect(called.arguments).toBe(given.join('') || '{}');
      });
      expect(new Set(answer.toolCalls().map(({ id }) => id)).size).toBe(seen.length);
    }),
  );
});
