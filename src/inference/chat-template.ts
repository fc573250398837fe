import {
  type ChatHistoryItem,
  type ChatWrapper,
  type LlamaModel,
  type LlamaText,
  resolveChatWrapper,
} from 'node-llama-cpp';
import { type ChatMessage, textOf } from '../contract/chat.ts';
import { EngineFailure } from './engine.ts';

export type ChatTemplate = (messages: readonly ChatMessage[]) => LlamaText;

/**
 * The GGUF's own template, not one of the library's look-alikes: those put a second begin token before SmolLM2's
 * prompt. Files without a template get the look-alike of their architecture.
 */
export function chatTemplate(model: LlamaModel): ChatTemplate {
  const ownTemplate = model.fileInfo.metadata.tokenizer?.chat_template;
  const type = typeof ownTemplate === 'string' ? 'jinjaTemplate' : 'auto';
  let wrapper: ChatWrapper;
  try {
    wrapper = resolveChatWrapper(model, { type, warningLogs: false, fallbackToOtherWrappersOnJinjaError: false });
  } catch (error) {
    // Scoring needs no template, so such a model is still of use.
    return () => {
      throw new EngineFailure('unavailable', 'the chat template in the weights file cannot be used', error);
    };
  }
  return (messages) => {
    const answer: ChatHistoryItem = { type: 'model', response: [] };
    try {
      return wrapper.generateContextState({ chatHistory: [...messages.map(historyItem), answer] }).contextText;
    } catch (error) {
      throw new EngineFailure('invalid', 'the chat template of this model refuses these messages', error);
    }
  };
}

/** Strings are tokenised as plain text by the library's rendering, whoever wrote them. */
function historyItem(message: ChatMessage): ChatHistoryItem {
  const text = textOf(message);
  switch (message.role) {
    case 'system':
    case 'developer':
      return { type: 'system', text };
    case 'assistant':
      return { type: 'model', response: [text] };
    default:
      return { type: 'user', text };
  }
}
