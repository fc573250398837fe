import { z } from 'zod';
import type { ChatMessage } from '../contract/chat.ts';
import { cachedAs } from './anthropic-content.ts';

const functionTool = z.looseObject({
  function: z.looseObject({
    name: z.string(),
    description: z.string().optional().catch(undefined),
    parameters: z.looseObject({}).optional().catch(undefined),
  }),
});

const namedChoice = z.object({ function: z.object({ name: z.string() }) });

/** Tools and tool choice in Anthropic's words; nothing where the conversation has to do with none. */
export function anthropicTools(
  options: Readonly<Record<string, unknown>>,
  messages: readonly ChatMessage[],
): { readonly tools?: readonly object[]; readonly tool_choice?: object } {
  const offered = z.array(z.unknown()).catch([]).parse(options['tools']);
  const tools = offered.flatMap((tool) => {
    const parsed = functionTool.safeParse(tool).data;
    return parsed ? [toolOf(parsed.function, tool)] : [];
  });
  if (tools.length > 0) {
    const choice = choiceOf(options['tool_choice'], options['parallel_tool_calls'] === false);
    return { tools, ...(choice ? { tool_choice: choice } : {}) };
  }
  // Calls in the history must be of tools that are defined, even if none may be called any more.
  const used = [
    ...new Set(messages.flatMap(({ tool_calls }) => (tool_calls ?? []).flatMap((call) => call.function?.name ?? []))),
  ];
  if (used.length === 0) return {};
  return { tools: used.map((name) => ({ name, input_schema: anyInput })), tool_choice: { type: 'none' } };
}

const anyInput = { type: 'object' };

function toolOf({ name, description, parameters }: z.infer<typeof functionTool>['function'], tool: unknown): object {
  return {
    name,
    ...(description === undefined ? {} : { description }),
    input_schema: { ...anyInput, ...parameters },
    ...cachedAs(tool),
  };
}

function choiceOf(choice: unknown, oneAtATime: boolean): object | undefined {
  if (choice === 'none') return { type: 'none' };
  const single = oneAtATime ? { disable_parallel_tool_use: true } : {};
  if (choice === 'required') return { type: 'any', ...single };
  const named = namedChoice.safeParse(choice).data;
  if (named) return { type: 'tool', name: named.function.name, ...single };
  return oneAtATime ? { type: 'auto', ...single } : undefined;
}
