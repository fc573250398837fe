import { stringify } from 'yaml';
import type { Environment } from '../assembly/settings.ts';
import { readStart } from '../assembly/start.ts';

/** The effective configuration as YAML that a user can start from, secrets hidden. */
export function printConfig({ config: askedPath }: { readonly config?: string }, environment: Environment): void {
  const { config, configPath } = readStart(environment, askedPath);
  console.log(`# ${configPath === undefined ? 'The embedded defaults.' : `From ${configPath}, defaults filled in.`}`);
  console.log(stringify(hideSecrets(config), { lineWidth: 0 }));
}

const hidden = '(hidden)';

function hideSecrets(value: unknown, key = ''): unknown {
  if (key === 'api_key' && value !== '') return hidden;
  if (key === 'base_url' && typeof value === 'string') return hideInAddress(value);
  if (Array.isArray(value)) return value.map((item) => hideSecrets(item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, hideSecrets(item, name)]));
}

/** Some servers take their secret as part of the address: a name and password, or a parameter. */
function hideInAddress(address: string): string {
  const url = new URL(address);
  if (url.username === '' && url.password === '' && url.search === '' && url.hash === '') return address;
  const account = url.username === '' && url.password === '' ? '' : `${hidden}@`;
  const names = [...new Set(url.searchParams.keys())];
  const parameters = names.length === 0 ? '' : `?${names.map((name) => `${name}=${hidden}`).join('&')}`;
  return `${url.protocol}//${account}${url.host}${url.pathname}${parameters}`;
}
