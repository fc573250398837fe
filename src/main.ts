#!/usr/bin/env node
import { Command } from 'commander';
import { ConfigError } from './assembly/load-config.ts';
import { settingsFrom } from './assembly/settings.ts';
import { printConfig } from './commands/config.ts';
import { demo } from './commands/demo.ts';
import { registerDescribeCommand } from './commands/describe/describe.ts';
import { registerModelCommands } from './commands/models.ts';
import { registerRunCommands } from './commands/runs.ts';
import { type ServeContext, serve } from './commands/serve.ts';
import { DownloadFailure } from './inference/downloads/failure.ts';
import { EngineFailure } from './inference/engine.ts';

const stopping = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort());

const { stdin: input, stdout: output } = process;
const context: ServeContext = {
  modelsFolder: () => settingsFrom(process.env).modelsFolder,
  environment: process.env,
  signal: stopping.signal,
  onReload: (react) => process.on('SIGUSR2', react),
  write: (line) => console.log(line),
  ...(input.isTTY && output.isTTY ? { terminal: { input, output } } : {}),
};

const program = new Command('orchestra')
  .description('A gateway in which a small model decides turn by turn which priced tool answers best.')
  .showHelpAfterError();

program
  .command('serve', { isDefault: true })
  .description('serve the HTTP API')
  .option('--config <file>', 'configuration file instead of orchestra.yaml')
  .action((options: { config?: string }) => serve(options, context));

program
  .command('demo')
  .description('one run decided by a GGUF, with its candidates and its cost')
  .action(() => demo(context));

program
  .command('config')
  .description('look at the configuration')
  .command('print')
  .description('print the effective configuration, secrets hidden')
  .option('--config <file>', 'configuration file instead of orchestra.yaml')
  .action((options: { config?: string }) => printConfig(options, process.env));

registerModelCommands(program, context);
registerDescribeCommand(program, context);
registerRunCommands(program, context);

try {
  await program.parseAsync();
} catch (error) {
  // People can act on a sentence; a stack helps only where we did not foresee what happened.
  const foreseen = [ConfigError, DownloadFailure, EngineFailure].some((kind) => error instanceof kind);
  console.error(foreseen && error instanceof Error ? error.message : error);
  // A failed start must not linger because some part of it still runs.
  process.exit(1);
}
