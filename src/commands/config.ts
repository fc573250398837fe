import { stringify } from 'yaml';
import type { Environment } from '../assembly/settings.ts';
import { readStart } from '../assembly/start.ts';

/** The effective configuration as YAML that a user can start from, secrets hidden. */
export function printConfig({ config: askedPath }: { readonly config?: string }, environment: Environment): void {
  const { config, configPath } = readStart(environment, askedPath);
  console.log(`# ${configPath === undefined ? 'The embedded defaults.' : `From ${configPath}, defaults filled in.`}`);
  console.log(stringify(hideSecrets(config), { lineWidth: 0 }));
}

function hideSecrets(value: unknown, key = ''): unknown {
  if (key === 'api_key' && value !== '') return '(hidden)';
  if (Array.isArray(value)) return value.map((item) => hideSecrets(item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, hideSecrets(item, name)]));
}
