import { LRUCache } from 'lru-cache';
import { type Llama, type LlamaGrammar, LlamaGrammarEvaluationState, type LlamaModel } from 'node-llama-cpp';
import { EngineFailure } from './engine.ts';
import { jsonSchemaGrammar } from './json-schema-grammar.ts';

/** A grammar is read once a schema; how far a text has come in it is each request's own. */
export type GrammarFor = (schema: unknown) => Promise<LlamaGrammarEvaluationState>;

const keptGrammars = 64;

export function grammarsOf(llama: Llama, model: LlamaModel): GrammarFor {
  const known = new LRUCache<string, LlamaGrammar>({ max: keptGrammars });
  return async (schema) => {
    const key = JSON.stringify(schema);
    const grammar = known.get(key) ?? (await read(llama, jsonSchemaGrammar(schema)));
    known.set(key, grammar);
    return new LlamaGrammarEvaluationState({ model, grammar });
  };
}

async function read(llama: Llama, grammar: string): Promise<LlamaGrammar> {
  try {
    return await llama.createGrammar({ grammar });
  } catch (error) {
    const message = 'the JSON schema cannot be enforced: it is too large, or refers to itself without end';
    throw new EngineFailure('invalid', message, error);
  }
}
