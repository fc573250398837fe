import { expect, test } from 'vitest';
import { unwrittenIn, unwrittenTokens } from '../../src/upstream/unwritten-input.ts';

const letters = 'A'.repeat(1_000);
const inline = `data:image/png;base64,${letters}`;
const said = (...content: unknown[]) => ({ messages: [{ role: 'user', content }] });
const plain = { pictures: 0, inlineBytes: 0, unsized: undefined, speech: undefined, unpriced: undefined };

test.each<[string, object, object]>([
  ['a picture by address', { type: 'image_url', image_url: { url: 'https://x.example/y' } }, { pictures: 1 }],
  ['a picture inline', { type: 'image_url', image_url: { url: inline } }, { pictures: 1, inlineBytes: inline.length }],
  ['a picture as bare text', { type: 'image_url', image_url: inline }, { pictures: 1, inlineBytes: inline.length }],
  ['a picture of the other API', { type: 'input_image', image_url: inline }, { inlineBytes: inline.length }],
  ['a file', { type: 'file', file: { file_data: inline } }, { unsized: 'messages', inlineBytes: inline.length }],
  ['a film', { type: 'video_url', video_url: { url: inline } }, { unsized: 'messages', inlineBytes: inline.length }],
  [
    'a document in place of a picture',
    { type: 'image_url', image_url: { url: `data:application/pdf,${letters}` } },
    { pictures: 0, unsized: 'messages' },
  ],
  ['what only an upstream knows', { type: 'hologram', hologram: letters }, { unsized: 'messages', inlineBytes: 0 }],
  ['speech', { type: 'input_audio', input_audio: { data: letters } }, { unsized: 'messages', speech: 'messages' }],
])('%s is billed by what it shows and not by its letters', (_, part, expected) => {
  expect(unwrittenIn(said(part))).toMatchObject(expected);
});

test.each<[string, object]>([
  ['tools', { tools: [{ type: 'openrouter:web_search' }] }],
  ['tools', { tools: [{ google_search: {} }] }],
  ['tools', { tools: [{ type: 'function', googleSearch: {} }] }],
  ['web_search_options', { web_search_options: {} }],
  ['plugins', { plugins: [{ id: 'web' }] }],
  ['search_parameters', { search_parameters: { mode: 'auto' } }],
  ['preset', { preset: 'mine' }],
  ['model', { model: 'm:online' }],
  ['modalities', { modalities: ['text', 'audio'] }],
])('`%s` can have an upstream bill more than tokens', (field, body) => {
  expect(unwrittenIn({ ...said(), ...body })).toEqual({ ...plain, unpriced: field });
});

test.each<[string, object]>([
  [
    'tools of the client',
    { tools: [{ type: 'function', function: {} }, { type: 'custom', custom: {} }, { function: {} }] },
  ],
  [
    'texts of other APIs',
    said({ type: 'input_text', text: 'x' }, { text: 'y' }, { type: 'tool_result', content: 'z' }),
  ],
  ['words of the same sound', { ...said({ type: 'text', text: inline }), tools: [{ function: { plugins: {} } }] }],
  ['a search that is not ordered', { web_search_options: null, enable_search: false, plugins: [] }],
  ['a schema with such a field', { response_format: { json_schema: { properties: { plugins: {}, type: 'file' } } } }],
])('%s are nothing of the kind', (_, body) => {
  expect(unwrittenIn(body as Record<string, unknown>)).toEqual(plain);
});

test('what an assistant said aloud is speech, although only its id is sent', () => {
  const messages = [{ role: 'assistant', content: null, audio: { id: 'audio_1' } }];
  expect(unwrittenIn({ messages })).toEqual({ ...plain, unsized: 'messages', speech: 'messages' });
});

test.each<[string, object]>([
  ['in a picture', said({ type: 'image_url', image_url: { type: 'image_url', url: inline } })],
  ['in a result', said({ type: 'tool_result', content: [{ type: 'image', source: { type: 'image', data: inline } }] })],
  ['in content of its own', said({ type: 'image', data: inline, content: [{ type: 'image', content: [] }] })],
])('the letters of a picture %s count once', (_, body) => {
  expect(unwrittenIn(body as Record<string, unknown>)).toMatchObject({ inlineBytes: inline.length });
});

test('what looks like a picture in the arguments of a call is a picture and text', () => {
  const call = { id: 'c', function: { name: 'f', arguments: { type: 'image_url', url: inline } } };
  const body = { messages: [{ role: 'assistant', tool_calls: [call] }] };
  expect(unwrittenIn(body)).toMatchObject({ pictures: 1, inlineBytes: 0 });
});

test('no request is longer than the window, and what has no length fills it', () => {
  const pictures = unwrittenIn(said(...Array(3).fill({ type: 'image_url' })));
  const file = unwrittenIn(said({ type: 'image_url' }, { type: 'file' }));
  expect(unwrittenTokens(pictures, {})).toBeGreaterThanOrEqual(3 * 48_169);
  expect(unwrittenTokens(pictures, { pictureTokens: 1_600 })).toBe(4_800);
  expect(unwrittenTokens(pictures, { windowTokens: 8_192 })).toBe(8_192);
  expect(unwrittenTokens(file, { windowTokens: 128_000, pictureTokens: 10 })).toBe(128_000);
});
