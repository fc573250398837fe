import { type Decision, parseDecision } from '../../contract/parse.ts';
import { chatPrompt } from '../../contract/render.ts';
import type { Contract } from '../../contract/schema.ts';
import { addUsage, noUsage, type Usage, usageOf } from '../../cost/usage.ts';
import type { Expert, ExpertRequest } from '../../tools/expert.ts';
import { callExpert, type ExpertReply } from '../../tools/expert-call.ts';
import { promptUsage } from '../../upstream/cache-marks.ts';
import { createCallTime } from '../../upstream/call-time.ts';
import { policyMeter } from '../ask-policy.ts';
import { type Candidate, type Policy, PolicyFailure, type PolicyInput, type PolicyPlace } from '../policy.ts';
import { type CalledFunction, createCallListener } from './called-function.ts';
import { turnPrompt, windowShares } from './turn-prompt.ts';

export interface RemotePolicyOptions {
  /** For reports: `vllm/orchestrator-8b`. */
  readonly name: string;
  /** The model behind the server. */
  readonly expert: Expert;
  readonly place: PolicyPlace;
  readonly contract: Contract;
  /** Of the model as it is served; longer prompts are refused there. */
  readonly contextTokens: number;
  /** Most tokens of free thought before a choice. */
  readonly thoughtTokens: number;
}

/** For the call itself, behind the thought. */
const callTokens = 200;

/** The best guess first; what it got wrong once it would get wrong again, so then something else is drawn. */
const temperatures = [0, 0.7] as const;

/**
 * A model on a server decides: it gets system text, user text and functions, from which the template of its own model
 * makes the trained prompt. What it writes is parsed and validated, once more if need be. It shows no alternatives, so
 * π is all on its choice, and weights reach it in words only.
 */
export function createRemotePolicy(options: RemotePolicyOptions): Policy {
  const { name, place, contract, contextTokens, thoughtTokens } = options;
  const attempts = temperatures.length;
  return {
    name,
    backend: 'remote',
    contract: contract.name,
    place,
    bound: usageOf({
      // No prompt here is marked, but most upstreams write to their caches unasked.
      ...promptUsage(attempts * contextTokens, options.expert.cachesOnlyMarked ? 'none' : 'usual'),
      outputTokens: attempts * (thoughtTokens + callTokens),
      calls: attempts,
    }),
    decide: async (input) => {
      let bill = nothingBilled;
      let reason = '';
      for (const temperature of temperatures) {
        const reply = await ask(input, temperature, bill, options);
        bill = billed(bill, reply);
        // Silence is a bad answer like any other; everything else that failed would fail again.
        if (reply.failure?.failure) throw new PolicyFailure(reply.failure.reason, bill.usage, bill.estimated);
        const decision = decisionOf(reply, contract, input.candidates);
        if (decision.kind === 'call')
          return { probabilities: allOn(decision, input.candidates), weighted: false, ...bill };
        reason = decision.reason;
      }
      throw new PolicyFailure(`what it wrote is no decision: ${reason}`, bill.usage, bill.estimated);
    },
  };
}

interface Bill {
  readonly usage: Usage;
  readonly estimated: boolean;
}

const nothingBilled: Bill = { usage: noUsage, estimated: false };

const billed = ({ usage, estimated }: Bill, { usage: more }: ExpertReply): Bill => ({
  usage: addUsage(usage, more.usage),
  estimated: estimated || (more.estimated ?? false),
});

interface Reply extends ExpertReply {
  readonly call: CalledFunction | undefined;
}

/** Refusals of a prompt that is too long take no tokens: the next one is shorter. */
async function ask(
  input: PolicyInput,
  temperature: number,
  before: Bill,
  options: RemotePolicyOptions,
): Promise<Reply> {
  const [whole, ...smaller] = windowShares;
  const callTime = createCallTime(input.timeLeftMs);
  const replyWithin = (share: number) =>
    replyOf({ ...requestFor(input, temperature, share, options), callTime }, before, options.expert);
  let reply = await replyWithin(whole);
  for (const share of smaller) {
    if (reply.failure?.failure !== 'context_length_exceeded') break;
    reply = await replyWithin(share);
  }
  return reply;
}

function requestFor(
  input: PolicyInput,
  temperature: number,
  windowShare: number,
  { contract, contextTokens, thoughtTokens }: RemotePolicyOptions,
): ExpertRequest {
  const maxOutputTokens = thoughtTokens + callTokens;
  const room = Math.floor((contextTokens - maxOutputTokens) * windowShare);
  const { system, user, tools } = chatPrompt(turnPrompt(input, contract, room), contract);
  return {
    messages: [
      { role: 'system', content: system },
      { role: 'user', content: user },
    ],
    maxOutputTokens,
    options: { temperature, seed: input.seed, tools: tools.map((tool): unknown => JSON.parse(tool)) },
    signal: input.signal,
  };
}

async function replyOf(request: ExpertRequest, before: Bill, expert: Expert): Promise<Reply> {
  const heard = createCallListener();
  const call = callExpert(expert, request, { id: policyMeter });
  try {
    for (;;) {
      const step = await call.next();
      if (step.done) return { ...step.value, call: heard.first() };
      heard.push(step.value);
    }
  } catch (thrown) {
    if (!request.signal.aborted) throw thrown;
    // Cut off by the caller: the prompt was sent, and what it cost is not known.
    const { messages, options, callTime } = request;
    const inputTokens = tokensIn(Buffer.byteLength(JSON.stringify({ messages, options })));
    const cutOff = usageOf({
      inputTokens,
      outputTokens: tokensIn(heard.bytes()),
      calls: 1,
      durationMs: callTime?.ms() ?? 0,
    });
    throw new PolicyFailure('it was cut off', addUsage(before.usage, cutOff), true);
  }
}

/** Tokens are about four bytes of English and fewer of most else; counting three errs on the dear side. */
const tokensIn = (bytes: number): number => Math.ceil(bytes / 3);

/** Servers that know the model's calls hand them over apart; others leave them in the text. */
function decisionOf({ text, call }: Reply, contract: Contract, candidates: readonly Candidate[]): Decision {
  const { callOpen, callClose } = contract.chat;
  const written = call
    ? `${callOpen}{"name": ${JSON.stringify(call.name)}, "arguments": ${call.arguments}}${callClose}`
    : text;
  return parseDecision(
    written,
    contract,
    candidates.map(({ role, id }) => ({ role, slot: id })),
  );
}

const allOn = ({ role, slot }: Extract<Decision, { kind: 'call' }>, candidates: readonly Candidate[]): number[] =>
  candidates.map((candidate) => (candidate.role === role && candidate.id === slot ? 1 : 0));
