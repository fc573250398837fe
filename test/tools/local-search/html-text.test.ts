import fc from 'fast-check';
import { expect, test } from 'vitest';
import { htmlText } from '../../../src/tools/local-search/html-text.ts';

test('keeps what is read and makes headings of headings', () => {
  const html = `<!doctype html><html><head><title>Tides &amp; ports</title><style>p > a { color: red }</style></head>
    <body><nav>Home <a href="/">up</a></nav><!-- <p>not this</p> --><h2 class="a>b">Brest</h2>
    <p>High   tide at <b>no</b>on.<br>Low tide&nbsp;later.</p><script>if (a < b) alert("</p>")</script>
    <ul><li>one</li><li>two &#38; &#x33;</li></ul></body></html>`;
  expect(htmlText(html)).toBe(
    '# Tides & ports\n\n## Brest\n\nHigh tide at noon.\nLow tide\u00a0later.\n\none\n\ntwo & 3'.replace('\u00a0', ' '),
  );
});

test('a bracket that opens no tag is text', () => {
  expect(htmlText('a < b and 3 <4 <')).toBe('a < b and 3 <4 <');
});

test('an element that never closes swallows the rest, in no time', () => {
  expect(htmlText(`seen ${'<script>'.repeat(200_000)}`)).toBe('seen');
  expect(htmlText(`seen ${'<p title="'.repeat(200_000)}`)).toBe('seen');
  expect(htmlText(`seen ${'<!--'.repeat(200_000)}`)).toBe('seen');
});

test('text without markup stays, whatever it is', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('a', 'ß', '数', '😀', '&', ';', '>') }), (text) => {
      expect(htmlText(text)).toBe(text);
    }),
  );
});
