import { loadContract } from '../contract/load.ts';
import { contractNames } from '../contract/schema.ts';
import { createRemotePolicy } from '../router/policies/remote.ts';
import type { Policy } from '../router/policy.ts';
import { createRemoteExpert } from '../tools/remote-expert.ts';
import type { Config } from './config.ts';
import type { ConnectedUpstream, Patience } from './upstreams.ts';

/** What is assumed where the configuration says nothing: how Orchestrator-8B and its like are served as a rule. */
const usual = { contract: 'slots-1', contextTokens: 32_768, thoughtTokens: 2048 } as const;

/** The policy that the configuration names on one of its upstreams; undefined when it names none that is there. */
export function openRemotePolicy(
  { upstream: name = '', model, contract, context, thought }: Config['policy'],
  upstreams: ReadonlyMap<string, ConnectedUpstream>,
  { firstTokenTimeoutMs, betweenTokensTimeoutMs }: Patience,
): Policy | undefined {
  const upstream = upstreams.get(name);
  if (!upstream || model === undefined) return undefined;
  const { privacy, regions } = upstream.config;
  return createRemotePolicy({
    name: `${name}/${model}`,
    expert: createRemoteExpert({ upstream: upstream.chat, model, firstTokenTimeoutMs, betweenTokensTimeoutMs }),
    place: { upstream: name, privacy, regions },
    contract: loadContract(contractNames.find((name) => name === contract) ?? usual.contract),
    contextTokens: context ?? usual.contextTokens,
    thoughtTokens: thought ?? usual.thoughtTokens,
  });
}
