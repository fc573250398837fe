/** HTML as plain text with Markdown headings: enough to search and cite, in one pass and linear time. */
export function htmlText(html: string): string {
  let text = '';
  let at = 0;
  while (at < html.length) {
    const open = html.indexOf('<', at);
    text += collapse(html.slice(at, open < 0 ? html.length : open));
    if (open < 0) break;
    const [mark, end] = readTag(html, open);
    text += mark;
    at = end;
  }
  return decodeEntities(text)
    .replace(/[ \t]*\n[ \t]*/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}

const collapse = (text: string): string => text.replace(/\s+/g, ' ');

/** Elements whose content is not for readers. */
const silent = new Set(['script', 'style', 'noscript', 'template', 'svg', 'nav']);
const inline = new Set(['a', 'abbr', 'b', 'code', 'em', 'i', 'mark', 'small', 'span', 'strong', 'sub', 'sup', 'u']);

/** What a tag contributes to the text, and where reading goes on. */
function readTag(html: string, open: number): readonly [mark: string, end: number] {
  if (html.startsWith('<!--', open)) return ['', after(html, '-->', open + 4)];
  const [tag, slash, name = ''] = /^<(\/?)([a-z][a-z0-9]*)/i.exec(html.slice(open, open + 32)) ?? [];
  // A lone bracket is text; `<!doctype>` and `<?xml?>` are not.
  if (tag === undefined)
    return /^<[!?]/.test(html.slice(open, open + 2)) ? ['', after(html, '>', open)] : ['<', open + 1];
  const element = name.toLowerCase();
  const end = tagEnd(html, open);
  if (slash === '' && silent.has(element)) return ['\n', afterElement(html, element, end)];
  if (inline.has(element)) return ['', end];
  const level = /^h([1-6])$/.exec(element)?.[1];
  const opensTitle = slash === '' && (level !== undefined || element === 'title');
  return [opensTitle ? `\n\n${'#'.repeat(Number(level ?? 1))} ` : '\n', end];
}

/** Past the `>` that is not inside an attribute; looks ahead only so far that broken markup stays linear. */
function tagEnd(html: string, open: number): number {
  const whole = /^(?:[^>"']|"[^"]*"|'[^']*')*>/.exec(html.slice(open, open + longestTag));
  return whole ? open + whole[0].length : after(html, '>', open);
}

const longestTag = 2_000;

function after(html: string, closing: string, from: number): number {
  const found = html.indexOf(closing, from);
  return found < 0 ? html.length : found + closing.length;
}

function afterElement(html: string, element: string, from: number): number {
  const closing = new RegExp(`</${element}\\b[^>]*>?`, 'gi');
  closing.lastIndex = from;
  return closing.exec(html) ? closing.lastIndex : html.length;
}

const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ' };

function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]{2,5}));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return named[String(name).toLowerCase()] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
