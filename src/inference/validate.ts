import {
  type Adapter,
  EngineFailure,
  type EngineOptions,
  type GenerateRequest,
  type JudgeRequest,
  type ScoreRequest,
  type ToolUse,
} from './engine.ts';

/** llama.cpp accepts nonsense in silence (NaN temperatures, 300 sequences), so everything is checked here. */

/** The number 2³² − 1 means "pick a seed yourself" to llama.cpp. */
const largestSeed = 2 ** 32 - 2;
const mostSequences = 256;
const mostStops = 16;

function require(condition: boolean, message: string): void {
  if (!condition) throw new EngineFailure('invalid', message);
}

function requireInteger(name: string, value: number, least: number, most: number): void {
  const inRange = Number.isInteger(value) && value >= least && value <= most;
  require(inRange, `${name} must be a whole number from ${least} to ${most}`);
}

function requireNumber(name: string, value: number, least: number, most: number): void {
  require(Number.isFinite(value) &&
    value >= least &&
    value <= most, `${name} must be a number from ${least} to ${most}`);
}

export function checkEngineOptions(options: EngineOptions): void {
  require(options.modelPath !== '', 'modelPath must name a file');
  require(options.device === 'cpu' || options.device === 'cuda', 'device must be cpu or cuda');
  requireInteger('threads', options.threads, 1, 1_024);
  requireInteger('contextTokens', options.contextTokens, 16, 2 ** 24);
  requireInteger('sequences', options.sequences, 1, mostSequences);
  requireInteger('prefillChunkTokens', options.prefillChunkTokens, 1, 8_192);
  if (options.snapshotBytes !== undefined) requireInteger('snapshotBytes', options.snapshotBytes, 0, 2 ** 48);
  checkAdapter(options.adapter);
}

export function checkAdapter(adapter: Adapter | undefined): void {
  if (adapter === undefined) return;
  require(adapter.path !== '', 'adapter.path must name a file');
  requireNumber('adapter.scale', adapter.scale, -100, 100);
}

const longestDeadlineMs = 2 ** 31 - 1;

function checkDeadline({ deadlineMs }: { readonly deadlineMs?: number | undefined }): void {
  if (deadlineMs !== undefined) requireNumber('deadlineMs', deadlineMs, 1, longestDeadlineMs);
}

export function checkJudgeRequest(request: Omit<JudgeRequest, 'signal'>): void {
  require(request.questions.length > 0, 'there must be at least one question');
  require(request.answers.length > 0, 'there must be at least one answer');
  checkDeadline(request);
}

export function checkScoreRequest(request: Omit<ScoreRequest, 'signal'>): void {
  const { choices, thought, seed } = request;
  checkDeadline(request);
  require(choices.length > 0, 'there must be at least one choice');
  requireInteger('thought.budgetTokens', thought.budgetTokens, 0, 2 ** 24);
  require(thought.budgetTokens === 0 || thought.close.text.trim() !== '', 'a thought needs a closing segment');
  requireInteger('seed', seed, 0, largestSeed);
}

export function checkGenerateRequest(request: Omit<GenerateRequest, 'signal'>): void {
  checkDeadline(request);
  require(request.messages.length > 0, 'there must be at least one message');
  requireInteger('maxTokens', request.maxTokens, 1, 2 ** 31 - 1);
  requireNumber('temperature', request.temperature, 0, 2);
  requireNumber('topP', request.topP, Number.MIN_VALUE, 1);
  requireNumber('presencePenalty', request.presencePenalty ?? 0, -2, 2);
  requireNumber('frequencyPenalty', request.frequencyPenalty ?? 0, -2, 2);
  if (request.topLogprobs !== undefined) requireInteger('topLogprobs', request.topLogprobs, 0, 20);
  if (request.toolUse) checkToolUse(request.toolUse, request.jsonSchema !== undefined);
  require(request.stop.length <= mostStops, `there can be at most ${mostStops} stop strings`);
  require(!request.stop.includes(''), 'a stop string cannot be empty');
  requireInteger('seed', request.seed, 0, largestSeed);
}

const toolName = /^[A-Za-z0-9_.:/-]{1,128}$/;

function checkToolUse({ tools, choice }: ToolUse, besideSchema: boolean): void {
  const names = tools.map(({ name }) => name);
  require(!besideSchema, 'there can be tools or a JSON schema, not both');
  require(names.length > 0, 'there must be at least one tool');
  require(new Set(names).size === names.length, 'every tool needs a name of its own');
  for (const name of names) require(toolName.test(name), 'a tool is named by letters, digits and _ . : / -');
  require(typeof choice === 'string' || names.includes(choice.name), 'the tool that must be called is not there');
}
