import type { ToolCallDelta } from '../../upstream/chat.ts';

export interface CalledFunction {
  readonly name: string;
  /** As written; not necessarily JSON. */
  readonly arguments: string;
}

/** Puts the first call together from its pieces; further calls do not matter to a decision. */
export function createCallCollector() {
  let name: string | undefined;
  let written = '';
  return {
    push: (delta: ToolCallDelta): void => {
      if (delta.index !== 0) return;
      name ??= delta.name;
      written += delta.argumentsDelta;
    },
    first: (): CalledFunction | undefined => (name === undefined ? undefined : { name, arguments: written }),
  };
}
