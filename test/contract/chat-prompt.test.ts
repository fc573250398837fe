import { readFileSync } from 'node:fs';
import { Template } from '@huggingface/jinja';
import { expect, test } from 'vitest';
import { loadContract } from '../../src/contract/load.ts';
import { chatPrompt, renderPrompt } from '../../src/contract/render.ts';
import { joinSegments } from '../../src/contract/segment.ts';
import { promptInputs } from './golden-inputs.ts';

const template = new Template(readFileSync(new URL('fixtures/qwen3-chat-template.jinja', import.meta.url), 'utf8'));

test.each(Object.entries(promptInputs))('a server that knows its template makes the trained prompt: %s', (_, input) => {
  const contract = loadContract(input.contract);
  const { system, user, tools } = chatPrompt(input, contract);
  const rendered = template.render({
    messages: [
      { role: 'system', content: system },
      { role: 'user', content: user },
    ],
    // As they arrive there: through JSON.
    tools: tools.map((tool): unknown => JSON.parse(JSON.stringify(JSON.parse(tool)))),
    add_generation_prompt: true,
  });
  expect(rendered).toBe(joinSegments(renderPrompt(input, contract)));
});
