import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

/** Loads Pyodide as its documentation says, runs each program in it and tells what they printed. */
const script = `
import { loadPyodide } from 'pyodide';
import { text } from 'node:stream/consumers';
const pyodide = await loadPyodide();
const printed = [];
pyodide.setStdout({ batched: (line) => printed.push(line) });
for (const code of JSON.parse(await text(process.stdin))) {
  try { pyodide.runPython(code); } catch (error) { printed.push(String(error)); }
}
process.on('exit', () => process._rawDebug(printed.join('\\n')));
`;

/** What the programs print in a Pyodide that nothing holds. */
export async function inPlainPyodide(codes: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['pipe', 'ignore', 'pipe'] });
  const printed = text(child.stderr);
  child.stdin.end(JSON.stringify(codes));
  return printed;
}
