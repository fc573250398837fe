import type { LlamaGrammarEvaluationState, Token } from 'node-llama-cpp';
import { markup } from '../contract/segment.ts';
import type { ChatTemplate } from './chat-template.ts';
import { EngineFailure, type GenerateEvent, type GenerateRequest } from './engine.ts';
import type { ReadGrammar } from './grammars.ts';
import { jsonSchemaGrammar } from './json-schema-grammar.ts';
import { LogprobRecorder } from './logprobs.ts';
import type { Sequence } from './sequence.ts';
import { TextWriter } from './text-writer.ts';
import type { ModelTokens } from './tokens.ts';
import { callOpen, ToolCallReader } from './tool-call-reader.ts';
import { toolCallGrammar } from './tool-grammar.ts';

export interface GeneratePlan {
  readonly request: GenerateRequest;
  readonly prompt: readonly Token[];
  /** Finds calls; undefined when there are no tools. */
  readonly calls: ToolCallReader | undefined;
  /** Of the answer, or of each call. */
  readonly newGrammar: (() => LlamaGrammarEvaluationState) | undefined;
}

/** The sampler reads them for every token. */
const mostPenalised = 4_096;

/** What a request needs of its model. */
export interface GenerateParts {
  readonly template: ChatTemplate;
  readonly tokens: ModelTokens;
  readonly readGrammar: ReadGrammar;
  readonly contextTokens: number;
}

/** Renders and checks everything before the first expensive act. */
export async function planGenerate(request: GenerateRequest, parts: GenerateParts): Promise<GeneratePlan> {
  const { template, tokens, readGrammar, contextTokens } = parts;
  const { messages, toolUse, jsonSchema } = request;
  if (toolUse && !template.takesTools)
    throw new EngineFailure('invalid', 'the chat template of this model knows no tools');
  const isForced = toolUse !== undefined && toolUse.choice !== 'auto';
  const opening = isForced ? tokens.ofSegments([markup(callOpen)]) : [];
  const prompt = [...template.prompt(messages, toolUse?.tools ?? []), ...opening];
  if (prompt.length >= contextTokens) {
    const message = `the messages need ${prompt.length} tokens, the context has ${contextTokens}`;
    throw new EngineFailure('context_full', message);
  }
  const newGrammar = (gbnf: string) => readGrammar(gbnf, request.privateTo !== undefined);
  return {
    request,
    prompt,
    calls: toolUse && new ToolCallReader(isForced),
    newGrammar: toolUse ? await newGrammar(toolCallGrammar(toolUse)) : await answerGrammar(jsonSchema, newGrammar),
  };
}

async function answerGrammar(schema: unknown, newGrammar: (gbnf: string) => ReturnType<ReadGrammar>) {
  try {
    return schema === undefined ? undefined : await newGrammar(jsonSchemaGrammar(schema));
  } catch (error) {
    if (!(error instanceof EngineFailure) || error.kind !== 'invalid') throw error;
    throw new EngineFailure('schema', error.message, error);
  }
}

/** Text and calls as they are written; the last event says why it ended. */
export async function* generateText(
  { request, prompt, calls, newGrammar }: GeneratePlan,
  sequence: Sequence,
  tokens: ModelTokens,
  signal: AbortSignal,
): AsyncGenerator<GenerateEvent> {
  const cachedTokens = sequence.cachedPrefix(prompt);
  const { temperature, topP, seed, topLogprobs, toolUse } = request;
  const grammar = newGrammar && (calls ? whileIn(calls, newGrammar) : newGrammar());
  const said: Token[] = [];
  const sampling = {
    temperature,
    topP,
    seed,
    ...(grammar && { grammarEvaluationState: grammar }),
    ...penaltyOn(said, request),
  };
  const recorder = topLogprobs === undefined ? undefined : new LogprobRecorder(topLogprobs, tokens);
  const written = recorder
    ? recorder.sample(sequence, prompt, sampling, signal)
    : sequence.sample(prompt, sampling, signal);
  const writer = new TextWriter(request.stop, tokens, calls, recorder);
  const called = () => (calls?.calls ?? 0) > 0;
  const isDone = () => writer.stopped || (toolUse?.parallel === false && called());
  let outputTokens = 0;
  let ended = false;
  for await (const token of written) {
    outputTokens++;
    said.push(token);
    ended = tokens.isEnd(token);
    if (ended) break;
    yield* writer.push(token);
    if (isDone() || outputTokens >= request.maxTokens) break;
  }
  yield* writer.flush();
  const usage = { promptTokens: prompt.length - cachedTokens, cachedTokens, outputTokens };
  yield { type: 'end', finishReason: reasonOf(ended || isDone(), called()), usage };
}

/** Before the first token there is nothing to hold against anybody. */
function penaltyOn(said: Token[], { presencePenalty = 0, frequencyPenalty = 0, maxTokens }: GenerateRequest) {
  if (presencePenalty === 0 && frequencyPenalty === 0) return {};
  const maxPunishTokens = Math.min(maxTokens, mostPenalised);
  const punishTokens = () => said.slice(-mostPenalised);
  return { repeatPenalty: { punishTokens, maxPunishTokens, penalty: 1, presencePenalty, frequencyPenalty } };
}

const reasonOf = (isComplete: boolean, called: boolean): 'stop' | 'length' | 'tool_calls' =>
  isComplete ? (called ? 'tool_calls' : 'stop') : 'length';

/** The grammar holds from the tag that opens a call to the one that closes it; every call begins anew. */
function whileIn(calls: ToolCallReader, newGrammar: () => LlamaGrammarEvaluationState) {
  let state: LlamaGrammarEvaluationState | undefined;
  let calling = -1;
  return () => {
    if (!calls.inCall) return undefined;
    if (calling !== calls.opened) state = newGrammar();
    calling = calls.opened;
    return state;
  };
}
