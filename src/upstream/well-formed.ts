/**
 * Half a surrogate pair is legal in a JavaScript string and in JSON text, but strict upstreams refuse it, and a
 * conversation with one bad tool result in it would then be refused for ever.
 */

/** JSON text, as `JSON.stringify` writes it, with every unpaired half replaced by U+FFFD. */
export function wellFormedJson(text: string): string {
  if (!text.includes('\\ud')) return text;
  // Escapes are consumed one by one, so that `\\ud800` (a backslash and letters) stays what it is.
  return text.replace(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (unit) => (unit.length === 6 ? '\\ufffd' : unit));
}

export interface TextJoiner {
  /** The text that is whole by now; a first half of a pair at its end waits for the next piece. */
  push(piece: string): string;
  /** A half that never found its other half. */
  flush(): string;
}

/** Joins surrogate pairs that an upstream split over two deltas. */
export function createTextJoiner(): TextJoiner {
  let held = '';
  return {
    push(piece) {
      const text = held + piece;
      held = /[\uD800-\uDBFF]$/.test(text) ? text.slice(-1) : '';
      return held ? text.slice(0, -1) : text;
    },
    flush() {
      const lost = held ? '\uFFFD' : '';
      held = '';
      return lost;
    },
  };
}
