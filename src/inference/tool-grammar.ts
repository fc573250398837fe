import { EngineFailure, type ToolDefinition, type ToolUse } from './engine.ts';
import { anyOf, literal } from './json-scalar-rules.ts';
import { JsonGrammar } from './json-schema-grammar.ts';
import { callClose } from './tool-call-reader.ts';

/** GBNF of what may follow `<tool_call>`, its end tag included. */
export function toolCallGrammar({ tools, choice }: ToolUse): string {
  const grammar = new JsonGrammar();
  const allowed = typeof choice === 'string' ? tools : tools.filter(({ name }) => name === choice.name);
  const calls = allowed.map((tool) => {
    const name = literal(`{"name": ${JSON.stringify(tool.name)}, "arguments": `);
    return `${name} ${argumentsOf(tool, grammar)} "}"`;
  });
  // Models write a line break around the call; that before it may be part of the tag's last token already.
  return grammar.withRoot(`"\\n"? ${anyOf(calls)} "\\n"? ${literal(callClose)}`);
}

function argumentsOf({ parameters, strict }: ToolDefinition, grammar: JsonGrammar): string {
  try {
    return grammar.expression(asObject(parameters));
  } catch (error) {
    if (strict || !(error instanceof EngineFailure)) throw error;
    return grammar.expression({ type: 'object' });
  }
}

/** Arguments are an object, whether or not their schema says so. */
function asObject(parameters: unknown): unknown {
  if (typeof parameters !== 'object' || parameters === null) return { type: 'object' };
  return 'type' in parameters || '$ref' in parameters ? parameters : { type: 'object', ...parameters };
}
