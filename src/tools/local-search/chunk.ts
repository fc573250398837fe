import { countCodePoints, keepHead, keepTail } from '../../contract/code-points.ts';

/** A piece of a document that stands for itself: what is searched and what is cited. */
export interface Chunk {
  /** The headings above it, outermost first. */
  readonly headings: readonly string[];
  /** Of its first line, from 1. */
  readonly line: number;
  readonly text: string;
}

export interface ChunkSize {
  readonly codePoints: number;
  /** Repeated from the end of the chunk before, so that a sentence on the border is found from either side. */
  readonly overlapCodePoints: number;
}

const defaultChunkSize: ChunkSize = { codePoints: 1_200, overlapCodePoints: 150 };

/** Splits Markdown or plain text at headings, then between lines; only a line too long for a chunk is split itself. */
export function chunkText(text: string, size: ChunkSize = defaultChunkSize): Chunk[] {
  return sections(text).flatMap((section) => splitSection(section, size));
}

interface Section {
  readonly headings: readonly string[];
  readonly firstLine: number;
  readonly lines: string[];
}

function sections(text: string): Section[] {
  const found: Section[] = [{ headings: [], firstLine: 1, lines: [] }];
  let inCode = false;
  text.split(/\r?\n/).forEach((line, index) => {
    const current = found[found.length - 1];
    if (/^\s*(```|~~~)/.test(line)) inCode = !inCode;
    const [, marks, title] = (inCode ? null : /^(#{1,6})[ \t]+(\S.*)$/.exec(line)) ?? [];
    if (marks === undefined || title === undefined) current?.lines.push(line);
    else {
      const above = (current?.headings ?? []).slice(0, marks.length - 1);
      found.push({ headings: [...above, title.replace(/[ \t]#+$/, '').trim()], firstLine: index + 2, lines: [] });
    }
  });
  return found;
}

function splitSection({ headings, firstLine, lines }: Section, size: ChunkSize): Chunk[] {
  const chunks: Chunk[] = [];
  let open = { text: '', codePoints: 0, line: firstLine, isFresh: false };
  const close = () => {
    const text = open.text.trim();
    if (open.isFresh && text !== '') chunks.push({ headings, line: open.line, text });
  };
  lines.forEach((whole, index) => {
    for (const piece of pieces(whole, size.codePoints)) {
      const codePoints = countCodePoints(piece);
      if (open.codePoints + codePoints + 1 > size.codePoints) {
        close();
        const room = Math.min(size.overlapCodePoints, size.codePoints - codePoints - 1);
        const text = wholeWords(keepTail(open.text, Math.max(0, room)));
        open = { text, codePoints: countCodePoints(text), line: firstLine + index, isFresh: false };
      }
      const isFirst = open.text === '';
      open = {
        text: isFirst ? piece : `${open.text}\n${piece}`,
        codePoints: open.codePoints + codePoints + (isFirst ? 0 : 1),
        line: isFirst ? firstLine + index : open.line,
        isFresh: open.isFresh || piece.trim() !== '',
      };
    }
  });
  close();
  return chunks;
}

function pieces(line: string, limit: number): string[] {
  const found: string[] = [];
  let rest = line;
  do {
    const piece = keepHead(rest, limit);
    found.push(piece);
    rest = rest.slice(piece.length);
  } while (rest !== '');
  return found;
}

/** An overlap starts behind its first space, not inside a word. */
const wholeWords = (text: string): string => text.slice(text.search(/\s/) + 1);
