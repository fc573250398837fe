import type { RunRecord } from '../router/run.ts';
import type { WireCitation } from './wire.ts';

/**
 * The web pages behind an answer, which any reader can open. Which sentence rests on which is not known, so each spans
 * nothing.
 */
export const citationsOf = ({ sources }: RunRecord): WireCitation[] =>
  sources
    .filter(({ url }) => /^https?:/i.test(url))
    .map(({ title, url }) => ({
      type: 'url_citation',
      url_citation: { url, title, start_index: 0, end_index: 0 },
    }));
