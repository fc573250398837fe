import type { ChatMessage } from '../contract/chat.ts';

/** Where one OpenAI-compatible server differs from the next. */
export interface OpenAiDialect {
  /** The other name is never sent: servers that do not know it write without limit. */
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens';
  /** Whether it knows the role `developer`; otherwise that becomes `system`. */
  readonly developerRole: boolean;
  /** Whether call ids must be nine letters and digits. */
  readonly shortCallIds: boolean;
  /**
   * Whether an assistant's `reasoning_content` goes back to it: thinking models of some makers refuse to go on after a
   * tool call without it, other servers refuse the field.
   */
  readonly replaysReasoning: boolean;
  /** Request fields beyond the common ones. */
  readonly extraFields: readonly string[];
}

/** OpenAI itself and Azure. */
export const openAiDialect: OpenAiDialect = {
  maxTokensField: 'max_completion_tokens',
  developerRole: true,
  shortCallIds: false,
  replaysReasoning: false,
  extraFields: ['verbosity', 'prompt_cache_key', 'prompt_cache_retention', 'prediction'],
};

/** vLLM, llama.cpp, Ollama, OpenRouter and the many others. */
const compatibleDialect: OpenAiDialect = {
  maxTokensField: 'max_tokens',
  developerRole: false,
  shortCallIds: false,
  replaysReasoning: false,
  extraFields: ['top_k', 'min_p', 'repetition_penalty', 'chat_template_kwargs'],
};

/** @param replaysReasoning as the operator knows it; left out: by the host. */
export function dialectFor(baseUrl: string, replaysReasoning?: boolean): OpenAiDialect {
  const host = new URL(baseUrl).hostname;
  const base = /(^|\.)openai\.(com|azure\.com)$/.test(host) ? openAiDialect : compatibleDialect;
  return {
    ...base,
    shortCallIds: /(^|\.)mistral\.ai$/.test(host),
    replaysReasoning: replaysReasoning ?? /(^|\.)(deepseek\.com|moonshot\.(ai|cn))$/.test(host),
  };
}

/** What this server calls the author of a message. */
export function roleFor(role: ChatMessage['role'], dialect: OpenAiDialect): ChatMessage['role'] {
  return role === 'developer' && !dialect.developerRole ? 'system' : role;
}
