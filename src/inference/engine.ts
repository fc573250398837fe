import type { ChatMessage, TokenLogprob } from '../contract/chat.ts';
import type { Segment } from '../contract/segment.ts';

/** What training changed in some weights, in a file of its own: LoRA, made for one base model. */
export interface Adapter {
  readonly path: string;
  /** 1 as trained, 0 as if it were not there. */
  readonly scale: number;
}

/** Where one loaded GGUF runs, and how. Nothing is "auto": the host says what it was given. */
export interface EngineOptions {
  readonly modelPath: string;
  readonly adapter?: Adapter | undefined;
  /** `cuda` never falls back to the CPU in silence: without a working device the engine refuses to start. */
  readonly device: 'cpu' | 'cuda';
  readonly threads: number;
  readonly contextTokens: number;
  /** KV-cache lanes. */
  readonly sequences: number;
  /** Longest piece of prompt processed between two looks at the cancel flag. */
  readonly prefillChunkTokens: number;
  /**
   * For copies of what sequences hold: shared prefixes, and conversations that had to make room. By default twice what the
   * sequences hold, at most 4 GiB, and at most a quarter of the memory that is left.
   */
  readonly snapshotBytes?: number;
  /** What the host process may see of the environment, such as LD_LIBRARY_PATH for CUDA; nothing by default. */
  readonly environment?: Readonly<Record<string, string>>;
}

export interface EngineInfo {
  readonly architecture: string;
  readonly device: string;
  readonly contextTokens: number;
  /** Whether its chat template knows functions, and has calls written in a form that is read here. */
  readonly takesTools: boolean;
  /** In use now. */
  readonly adapter?: Adapter | undefined;
  /** SHA-256, hex: of the weights file; with an adapter, of both their hashes and its scale. */
  readonly weightsHash: string;
}

/** Tokens that one request cost the engine. `cached` were already in the KV cache and are not in `prompt`. */
export interface EngineUsage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

export interface ScoreRequest {
  readonly prompt: readonly Segment[];
  /** The texts to choose among, each as segments; at least one, all different. */
  readonly choices: readonly (readonly Segment[])[];
  /** Most tokens of free thought before the choice; 0 closes the thought at once. */
  readonly thought: { readonly budgetTokens: number; readonly open: Segment; readonly close: Segment };
  readonly seed: number;
  /** Owner of a private run: what it leaves in the KV cache is erased before anybody else gets the lane. */
  readonly privateTo?: string | undefined;
  /** A later turn of a run that has begun: it goes before runs that have not. */
  readonly inProgress?: boolean | undefined;
  /** After so long it is given up as `busy`, wherever it is. */
  readonly deadlineMs?: number | undefined;
  readonly signal: AbortSignal;
}

export interface ScoreResult {
  /** One a choice, in order: natural log of the locally masked product; their exponentials sum to 1. */
  readonly logProbabilities: readonly number[];
  readonly thought: string;
  readonly usage: EngineUsage;
}

/** Several questions about one thing, such as a card a slot, each read behind the same prompt by itself. */
export interface JudgeRequest {
  readonly prompt: readonly Segment[];
  /** At least one. Tokenised apart from the prompt: it must end where a token ends, in training too. */
  readonly questions: readonly (readonly Segment[])[];
  /** What may follow each of them, such as grade words; at least one, all different. */
  readonly answers: readonly (readonly Segment[])[];
  /** Owner of a private run: what it leaves in the KV cache is erased before anybody else gets the lane. */
  readonly privateTo?: string | undefined;
  /** A later turn of a run that has begun: it goes before runs that have not. */
  readonly inProgress?: boolean | undefined;
  /** After so long it is given up as `busy`, wherever it is. */
  readonly deadlineMs?: number | undefined;
  readonly signal: AbortSignal;
}

export interface JudgeResult {
  /** A list a question, in order: natural logs of the masked chances of the answers, in order. */
  readonly logProbabilities: readonly (readonly number[])[];
  readonly usage: EngineUsage;
}

/** A function of the client's, as OpenAI describes them. */
export interface ToolDefinition {
  readonly name: string;
  readonly description?: string | undefined;
  /** JSON schema of the arguments; anything goes without one. */
  readonly parameters?: unknown;
  /** The schema is enforced whole or the request refused; otherwise what cannot be enforced is left to the model. */
  readonly strict?: boolean | undefined;
}

export interface ToolUse {
  /** At least one, each name once. */
  readonly tools: readonly ToolDefinition[];
  /** Whether to call is the model's choice, or it has to: some function, or the named one. */
  readonly choice: 'auto' | 'required' | { readonly name: string };
  /** False: nothing follows the first call. */
  readonly parallel: boolean;
}

export interface GenerateRequest {
  /** Rendered by the GGUF's own chat template; contents are never read as control tokens. */
  readonly messages: readonly ChatMessage[];
  readonly maxTokens: number;
  /** 0 to 2; 0 is greedy. */
  readonly temperature: number;
  readonly topP: number;
  readonly stop: readonly string[];
  readonly seed: number;
  /**
   * -2 to 2, 0 by default: taken from the logit of what the answer holds already, the first once, the second each time that
   * it does. Log probabilities are those after it.
   */
  readonly presencePenalty?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  /**
   * 0 to 20: text comes with its tokens' chances, and so many alternatives to each; fewer where all others together have a
   * chance below 1 in 100,000. Left out: without.
   */
  readonly topLogprobs?: number | undefined;
  /** Only where the engine's `takesTools` says so, and not beside a JSON schema. */
  readonly toolUse?: ToolUse | undefined;
  /** The text will be JSON that this schema allows; a schema that cannot be enforced is `invalid`, by name. */
  readonly jsonSchema?: unknown;
  /** Owner of a private run: what it leaves in the KV cache is erased before anybody else gets the lane. */
  readonly privateTo?: string | undefined;
  /** A later turn of a run that has begun: it goes before runs that have not. */
  readonly inProgress?: boolean | undefined;
  /** After so long it is given up as `busy`, wherever it is. */
  readonly deadlineMs?: number | undefined;
  readonly signal: AbortSignal;
}

export type GenerateEvent =
  | { readonly type: 'text'; readonly text: string; readonly logprobs?: readonly TokenLogprob[] | undefined }
  | ToolCallPiece
  | {
      readonly type: 'end';
      readonly finishReason: 'stop' | 'length' | 'tool_calls';
      readonly usage: EngineUsage;
    };

export interface ToolCallPiece {
  readonly type: 'tool_call';
  readonly index: number;
  /** On the first piece of a call only. */
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  /** What follows of the arguments' JSON. */
  readonly argumentsDelta: string;
}

/**
 * One GGUF, ready to work. The same interface in-process (tests) and behind a host process (serving).
 * Every method rejects with EngineFailure, or with an AbortError when its signal fires.
 */
export interface InferenceEngine {
  readonly info: EngineInfo;
  score(request: ScoreRequest): Promise<ScoreResult>;
  judge(request: JudgeRequest): Promise<JudgeResult>;
  generate(request: GenerateRequest): AsyncIterable<GenerateEvent>;
  /** Tokens of a plain text, without control tokens. */
  countTokens(text: string): Promise<number>;
  /**
   * From now on requests get these weights with another adapter, or with none; those that have begun end as they began.
   * Needs room for a second context meanwhile. Rejects, and all stays as it is, when the adapter cannot be used.
   */
  useAdapter(adapter: Adapter | undefined): Promise<EngineInfo>;
  close(): Promise<void>;
}

/** `schema` is `invalid` because of the schema for the answer alone. */
export type EngineFailureKind = 'unavailable' | 'busy' | 'context_full' | 'invalid' | 'schema' | 'crashed';

/** `crashed` and `busy` may be tried again; `unavailable` says in its message what the operator can do. */
export class EngineFailure extends Error {
  readonly kind: EngineFailureKind;

  constructor(kind: EngineFailureKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'EngineFailure';
    this.kind = kind;
  }
}
