import { existsSync } from 'node:fs';
import type { Config } from './config.ts';
import { crossChecks } from './config-checks.ts';
import { type DisabledChoice, defaultConfig } from './defaults.ts';
import { ConfigError, readConfig } from './load-config.ts';
import { type Environment, type Settings, settingsFrom } from './settings.ts';

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
  const effective = { ...config, server: { ...config.server, host, port } };
  const problems = [...portProblems(port), ...crossChecks(effective)];
  if (problems.length > 0) throw new ConfigError(problems);
  return { settings, config: effective, configPath: path, disabled };
}

const portProblems = (port: number): string[] =>
  Number.isInteger(port) && port >= 0 && port <= 65_535 ? [] : ['PORT: is a number from 0 to 65535'];
