import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

export type Environment = Readonly<Record<string, string | undefined>>;

/** What the environment alone decides: places and the address to listen on. Nothing else reads it. */
export interface Settings {
  /** The configuration file asked for; undefined = `orchestra.yaml` if it is there, else the embedded defaults. */
  readonly configPath: string | undefined;
  /** Database and indexes. */
  readonly home: string;
  /** Weights. */
  readonly modelsFolder: string;
  readonly host: string | undefined;
  readonly port: number | undefined;
}

export function settingsFrom(environment: Environment): Settings {
  const port = environment['PORT'];
  return {
    configPath: environment['ORCHESTRA_CONFIG'] || undefined,
    home: resolve(environment['ORCHESTRA_HOME'] || '.orchestra'),
    modelsFolder: resolve(
      environment['ORCHESTRA_MODELS'] ||
        join(environment['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'orchestra', 'models'),
    ),
    host: environment['HOST'] || undefined,
    port: port === undefined || port === '' ? undefined : Number(port),
  };
}
