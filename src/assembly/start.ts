import { existsSync } from 'node:fs';
import type { Config } from './config.ts';
import { type DisabledChoice, defaultConfig } from './defaults.ts';
import { type Environment, readConfig } from './load-config.ts';
import { type Settings, settingsFrom } from './settings.ts';

const configFile = 'orchestra.yaml';

/** What a process starts from: places, configuration, and what could still be switched on. */
export interface Start {
  readonly settings: Settings;
  readonly config: Config;
  /** The file that was read; undefined = the embedded defaults. */
  readonly configPath: string | undefined;
  readonly disabled: readonly DisabledChoice[];
}

/**
 * @param askedPath from `--config`; wins over the environment.
 * @throws ConfigError
 */
export function readStart(environment: Environment, askedPath: string | undefined): Start {
  const settings = settingsFrom(environment);
  const path = askedPath ?? settings.configPath ?? (existsSync(configFile) ? configFile : undefined);
  const { config, disabled } =
    path === undefined ? defaultConfig(environment) : { config: readConfig(path, environment), disabled: [] };
  const { host = config.server.host, port = config.server.port } = settings;
  return { settings, config: { ...config, server: { ...config.server, host, port } }, configPath: path, disabled };
}
