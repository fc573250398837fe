import type { AddressInfo } from 'node:net';
import { buildGateway, type Gateway } from '../assembly/gateway.ts';
import { ConfigError } from '../assembly/load-config.ts';
import { readStart, type Start } from '../assembly/start.ts';
import { fetchDefaultModel } from './default-model.ts';
import { greeting } from './greeting.ts';
import type { ModelCommandContext } from './models.ts';

export interface ServeOptions {
  readonly config?: string;
}

export interface ServeContext extends ModelCommandContext {
  /** Calls back whenever the operator asks for trained weights to be read anew. */
  readonly onReload: (react: () => void) => void;
}

/** Serves until a signal comes, then drains. */
export async function serve({ config: askedPath }: ServeOptions, context: ServeContext): Promise<void> {
  const { environment } = context;
  const start = readStart(environment, askedPath);
  if (start.configPath === undefined) await fetchDefaultModel(context);
  const { config, settings } = start;
  const { home, modelsFolder } = settings;
  const gateway = await buildGateway({ config, environment, home, modelsFolder, announce: console.log });
  await listen(gateway, start);
  console.log(greeting(gateway, start, addressOf(gateway)));
  context.onReload(() => void gateway.reload().then(console.log, console.error));
  await stopped(context.signal);
  console.log('Stopping: running answers are finished first.');
  await gateway.close();
}

async function listen({ app }: Gateway, { config }: Start): Promise<void> {
  const { host, port } = config.server;
  try {
    await app.listen({ host, port });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    const reasons: Record<string, string> = {
      EADDRINUSE: `port ${port} is taken: stop what uses it, or set PORT to another`,
      EACCES: `port ${port} needs more rights: set PORT to one above 1023`,
      EADDRNOTAVAIL: `this machine has no address ${host}: set HOST to one that it has`,
    };
    throw new ConfigError([reasons[String(error.code)] ?? error.message]);
  }
}

function addressOf({ app }: Gateway): string {
  const address = app.server.address() as AddressInfo; // A TCP listener always has one.
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}

const stopped = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
