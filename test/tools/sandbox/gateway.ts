import { openSandbox } from '../../../src/tools/sandbox/open-sandbox.ts';

/** A gateway that runs code which would sleep for ten minutes; the test kills it without warning. */
const opened = await openSandbox({ limits: { threads: 29 } });
if (!opened.available) throw new Error(opened.reason);
process.stdout.write('ready\n');
await opened.sandbox.execute({ code: 'import time\ntime.sleep(600)', signal: new AbortController().signal });
