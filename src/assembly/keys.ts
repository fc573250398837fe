import { createHash } from 'node:crypto';
import type { GatewayKey } from '../server/parts.ts';
import type { Config } from './config.ts';
import { keyChecks } from './config-checks.ts';
import { ConfigError } from './load-config.ts';
import type { Environment } from './settings.ts';

/** The configured keys with their hashes; undefined = no authentication. Secrets are hashed here and forgotten. */
export function gatewayKeys(config: Config, environment: Environment): readonly GatewayKey[] | undefined {
  const { auth, keys } = config.server;
  if (auth === 'none' || keys.length === 0) return undefined;
  const problems = keyChecks(config, environment);
  if (problems.length > 0) throw new ConfigError(problems);
  return keys.map(({ name, sha256, env, ceiling }) => {
    const secret = env === undefined ? undefined : environment[env];
    return { name, ceiling, sha256: sha256 ?? hashOf(secret ?? '') };
  });
}

const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex');
