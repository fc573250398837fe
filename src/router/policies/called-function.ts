import type { ChatDelta } from '../../upstream/chat.ts';

export interface CalledFunction {
  readonly name: string;
  /** As written; not necessarily JSON. */
  readonly arguments: string;
}

/** Puts the first call together from its pieces; further calls do not matter to a decision. */
export function createCallListener() {
  let name: string | undefined;
  let written = '';
  let bytes = 0;
  return {
    push: (delta: ChatDelta): void => {
      const isCall = delta.type === 'tool_call';
      bytes += Buffer.byteLength(isCall ? delta.argumentsDelta : delta.text);
      if (!isCall || delta.index !== 0) return;
      name ??= delta.name;
      written += delta.argumentsDelta;
    },
    first: (): CalledFunction | undefined => (name === undefined ? undefined : { name, arguments: written }),
    /** Of everything that was said, thoughts included. */
    bytes: (): number => bytes,
  };
}
