import type { Gateway } from '../assembly/gateway.ts';
import type { Start } from '../assembly/start.ts';
import { slotRoles } from '../preferences/slot.ts';

/** What a person reads after the start: what is there, what could be, and two ways to ask. */
export function greeting(gateway: Gateway, start: Start, address: string): string {
  return [
    '',
    `Orchestra is ready at ${address}  (documentation: ${address}/docs)`,
    '',
    ...slotLines(gateway),
    ...gateway.notes.map((note) => `  · ${note}`),
    ...start.disabled.map(({ name, variable }) => `  · ${name} is off: set ${variable} to switch it on`),
    `  · ${budgetLine(start)}`,
    '',
    'Try it:',
    `  curl ${address}/v1/chat/completions -H 'content-type: application/json' \\`,
    `    -d '{"model":"orchestra","messages":[{"role":"user","content":"How do I set a budget for one request?"}],"preferences":{"explain":"full"}}'`,
    '',
    '  import OpenAI from "openai";',
    `  const client = new OpenAI({ baseURL: "${address}/v1", apiKey: "none" });`,
    '  const answer = await client.chat.completions.create({',
    '    model: "orchestra:cheap", messages: [{ role: "user", content: "Hello!" }],',
    '  });',
    '',
  ].join('\n');
}

function slotLines({ slots }: Gateway): string[] {
  return slotRoles.map((role) => {
    const found = slots.filter((slot) => slot.role === role).map(({ id, model }) => `${id} (${model})`);
    return `  ${role.padEnd(18)} ${found.join(', ') || 'none'}`;
  });
}

function budgetLine({ config, configPath }: Start): string {
  const { max_cost_usd: request, max_cost_usd_per_day: day } = config.ceiling;
  if (request === undefined && day === undefined) return 'no spending limit is set (ceiling in orchestra.yaml)';
  const parts = [
    ...(request === undefined ? [] : [`${request} USD a request`]),
    ...(day === undefined ? [] : [`${day} USD a day`]),
  ];
  const how = configPath === undefined ? 'write orchestra.yaml to change it' : `set by ceiling in ${configPath}`;
  return `spending limit: ${parts.join(', ')} (${how})`;
}
