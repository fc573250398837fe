import { createHash } from 'node:crypto';
import type { GatewayKey } from '../server/parts.ts';
import type { Config } from './config.ts';
import { ConfigError, type Environment } from './load-config.ts';

/** The configured keys with their hashes; undefined = no authentication. Secrets are hashed here and forgotten. */
export function gatewayKeys({ server }: Config, environment: Environment): readonly GatewayKey[] | undefined {
  if (server.auth === 'none' || server.keys.length === 0) return undefined;
  const problems: string[] = [];
  const keys = server.keys.map(({ name, sha256, env, ceiling }, index) => {
    const secret = env === undefined ? undefined : environment[env];
    if (env !== undefined && !secret)
      problems.push(`server.keys.${index}.env: ${env} is not set: set it to the secret of \`${name}\``);
    return {
      name,
      ceiling,
      sha256:
        sha256 ??
        createHash('sha256')
          .update(secret ?? '')
          .digest('hex'),
    };
  });
  if (problems.length > 0) throw new ConfigError(problems);
  return keys;
}
