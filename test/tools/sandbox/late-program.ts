import { createPyodideSandbox } from '../../../src/tools/sandbox/pyodide.ts';
import { openPyodide } from '../../../src/tools/sandbox/pyodide-runtime.ts';
import { defaultCodeLimits } from '../../../src/tools/sandbox/sandbox.ts';

/** Runs a program that takes too long where nothing else goes on that would keep this process alive; tells its end. */
const runtime = await openPyodide();
const limits = { ...defaultCodeLimits, wallMs: 100 };
const sandbox = await createPyodideSandbox({ runtime, walls: 'none', limits, parallel: 1 });
const { status } = await sandbox.execute({ code: 'while True: pass', signal: new AbortController().signal });
process.stdout.write(status);
sandbox.close();
runtime.close();
