/** What both ends of every benchmark agree on. */

export const framesPerStream = 64;
/** What the model server writes, a word a frame. */
export const streamedWords = Array.from({ length: framesPerStream }, (_, index) => `wörd-${index} of the answer `);
export const streamedText = streamedWords.join('');
export const clientKey = 'sk-bench-client';

export const question = {
  messages: [
    { role: 'system', content: 'You are a careful assistant. Answer in short paragraphs and say when you are unsure.' },
    {
      role: 'user',
      content: 'Compare the three proposals below by cost, risk and time, then name the best. '.repeat(5),
    },
  ],
  max_tokens: 512,
  temperature: 0.2,
} as const;

/** A body of the plain kind or the streamed one, for whatever name the server knows the model by. */
export const bodyFor = (model: string, streamed: boolean): string =>
  JSON.stringify({
    model,
    ...question,
    ...(streamed ? { stream: true, stream_options: { include_usage: true } } : {}),
  });

/** @throws when an answer is not whole: a fast server that loses frames has won nothing. */
export function checkAnswer(text: string, streamed: boolean): void {
  const complete = streamed
    ? text.split('"content":"').length - 1 >= framesPerStream && text.trimEnd().endsWith('data: [DONE]')
    : text.includes('"finish_reason":"stop"') && text.includes('"usage":');
  if (!complete) throw new Error(`an answer is not whole: ${text.slice(-300)}`);
}
