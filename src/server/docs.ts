import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, FastifySchema } from 'fastify';
import { jsonSchemaTransform } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { feedbackBody, runsQuery, usageQuery } from './run-queries.ts';
import { chatRequest, relayRequest } from './wire.ts';

/**
 * The documentation page and its OpenAPI document, from the schemas that requests are read by. Schemas on routes are
 * for the document alone: handlers read their requests themselves, since what to check depends on the model.
 */
export function describeApi(app: FastifyInstance): void {
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Orchestra',
        version: '1',
        description:
          'OpenAI-compatible. Everything of ours is an addition: `preferences` in requests, `x_orchestra` and `usage.cost` in answers.',
      },
      components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } },
      security: [{ key: [] }],
    },
    transform: jsonSchemaTransform,
  });
  app.register(swaggerUi, { routePrefix: '/docs' });
}

const errorBody = z.object({
  error: z.looseObject({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().nullable(),
  }),
});
const anyObject = z.looseObject({});

const ownHeaders = z.object({
  'x-orchestra-preferences': z.string().optional().describe('`preferences` as JSON or base64url of it, at most 4 KB.'),
  'idempotency-key': z
    .string()
    .optional()
    .describe('The same request under the same key is answered once within ten minutes; at most 255 characters.'),
  'x-orchestra-strict': z.enum(['1']).optional().describe('Leaves out everything that OpenAI does not have.'),
});

const greeting = [{ role: 'user', content: 'What is 17 * 23?' }];
const chatExample = {
  model: 'orchestra',
  messages: greeting,
  preferences: { optimize: 'cheap', max_cost_usd: 0.02, explain: 'summary' },
};
const answerExample = {
  id: 'chatcmpl-5f0c2f9e8b7a4d3c2b1a0f9e',
  object: 'chat.completion',
  created: 1_790_000_000,
  model: 'orchestra',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: '391', refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage: { prompt_tokens: 14, completion_tokens: 3, total_tokens: 17, cost: 0.0001 },
  x_orchestra: { version: 1, run_id: 'run_5f0c2f9e8b7a', status: 'completed', model: 'vendor/small' },
};

/** Under the name that the document's generator reads: zod leaves `examples` out where a schema transforms. */
const withExample = (schema: z.ZodType, value: object) => schema.meta({ 'x-examples': { example: { value } } });

const described = (tag: string, summary: string, more: FastifySchema = {}): FastifySchema => ({
  tags: [tag],
  summary,
  ...more,
  response: { '2xx': anyObject, '4xx': errorBody, '5xx': errorBody, ...(more.response as object | undefined) },
});

export const routeSchemas = {
  chat: described('OpenAI', 'Chat completion: `orchestra` runs the loop, `UPSTREAM/MODEL` is relayed', {
    headers: ownHeaders,
    body: withExample(chatRequest, chatExample),
    response: { 200: withExample(anyObject, answerExample) },
  }),
  embeddings: described('OpenAI', 'Embeddings, relayed or by a model that runs here', {
    headers: ownHeaders,
    body: withExample(relayRequest, { model: 'openai/text-embedding-3-small', input: 'hello' }),
  }),
  completions: described('OpenAI', 'Legacy completions, relayed', {
    headers: ownHeaders,
    body: withExample(relayRequest, { model: 'vllm/qwen3-32b', prompt: 'Once upon' }),
  }),
  models: described('OpenAI', 'What is served'),
  model: described('OpenAI', 'One model'),
  slots: described('Orchestra', 'What the loop can choose, with prices, classes and health'),
  runs: described('Orchestra', 'Runs and relays of this key, newest first', { querystring: runsQuery }),
  run: described('Orchestra', 'The whole record of one run or relay of this key'),
  eraseRun: described('Orchestra', 'Erases the texts of a run; money and decisions stay'),
  feedback: described('Orchestra', 'Says how good the answer was; the last word stands', {
    body: withExample(feedbackBody, { score: 1, comment: 'Right, and short.' }),
  }),
  usage: described('Orchestra', 'What this key spent and may spend, by day, model and tool', {
    querystring: usageQuery,
  }),
  cancel: described('Orchestra', 'Stops a run or relay'),
  decide: described('Orchestra', 'A dry run: what the first turn would choose. Calls no tool', {
    body: withExample(chatRequest, chatExample),
  }),
  front: described('Service', 'What this is'),
  health: described('Service', 'Whether the process answers'),
  ready: described('Service', 'Whether everything that was configured works'),
  hidden: { hide: true },
} satisfies Record<string, FastifySchema>;
