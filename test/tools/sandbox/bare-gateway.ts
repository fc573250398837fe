import { url as debuggerUrl } from 'node:inspector';
import { setTimeout as sleep } from 'node:timers/promises';
import { openSandbox } from '../../../src/tools/sandbox/open-sandbox.ts';

/** A gateway on a host that grants no namespaces; tells as JSON what it has with and without the operator's word. */
const refused = await openSandbox();
const accepted = await openSandbox({ acceptWeakIsolation: true });
if (!accepted.available) throw new Error(accepted.reason);
const { sandbox } = accepted;
const { stdout } = await sandbox.execute({ code: 'print(6 * 7)', signal: new AbortController().signal });
process.kill(process.pid, 'SIGUSR1');
await sleep(300);
const debuggerIsOpen = debuggerUrl() !== undefined;
sandbox.close();
process.stdout.write(JSON.stringify({ refused, name: sandbox.name, stdout, debuggerIsOpen }));
