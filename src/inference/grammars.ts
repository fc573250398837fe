import { LRUCache } from 'lru-cache';
import { type Llama, type LlamaGrammar, LlamaGrammarEvaluationState, type LlamaModel } from 'node-llama-cpp';
import { EngineFailure } from './engine.ts';

/**
 * A grammar is read once a text of it, but for those of private runs, of which nothing is kept; how far a request has
 * come in it is each request's own.
 */
export type ReadGrammar = (gbnf: string, isPrivate: boolean) => Promise<() => LlamaGrammarEvaluationState>;

type GrammarReader = Pick<Llama, 'createGrammar'>;

const keptGrammars = 64;

export function grammarsOf(llama: GrammarReader, model: LlamaModel): ReadGrammar {
  const known = new LRUCache<string, LlamaGrammar>({ max: keptGrammars });
  return async (gbnf, isPrivate) => {
    const grammar = known.get(gbnf) ?? (await read(llama, gbnf));
    if (!isPrivate) known.set(gbnf, grammar);
    return () => new LlamaGrammarEvaluationState({ model, grammar });
  };
}

async function read(llama: GrammarReader, grammar: string): Promise<LlamaGrammar> {
  try {
    return await llama.createGrammar({ grammar });
  } catch (error) {
    const message = 'the JSON schema cannot be enforced: it is too large, or refers to itself without end';
    throw new EngineFailure('invalid', message, error);
  }
}
