// @ts-nocheck plain JavaScript: a Node without any loader runs this file as it stands, from the sources and compiled

/*
 * The inside of the Pyodide sandbox: one process, one program. Python can reach JavaScript objects, so it gets a realm
 * of its own with nothing in it but what the language has: no process, no require, no network, no files, no evaluation
 * of strings, no imports. Of the outside that realm holds functions only, behind guards that let bytes and numbers in
 * and primitives out, never an object of Node's own realm.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, readSync, writeSync } from 'node:fs';
import vm from 'node:vm';

/** As the gateway passes them; `snapshot` is written when it is made, else read. */
const descriptor = { job: 3, loader: 4, interpreter: 5, wasm: 6, library: 7, snapshot: 8 };
const word = { ready: 'r', ended: 'e' };
const [, mode, memoryBytes, abiVersion] = process.argv;

const realm = vm.createContext(Object.create(null), { codeGeneration: { strings: false, wasm: true } });

/** Runs inside the realm, before anything else does. Returns what only the code below may hold. */
function furnish(outside, files, memoryLimit, abiVersion) {
  const { apply } = Reflect;
  // An error of the other realm would be a way into it.
  const guarded = (work) => (first, second) => {
    try {
      return work(first, second);
    } catch {
      throw new Error('refused');
    }
  };
  const write = guarded(outside.write);
  const decode = guarded(outside.decode);
  const encode = guarded(outside.encode);
  const randomText = guarded(outside.randomText);
  const later = guarded(outside.later);
  const read = guarded(outside.read);

  const { grow } = WebAssembly.Memory.prototype;
  const growInLimit = function (pages) {
    if (this.buffer.byteLength + pages * 65_536 > memoryLimit) throw new RangeError('memory limit');
    return apply(grow, this, [pages]);
  };
  Object.defineProperty(WebAssembly.Memory.prototype, 'grow', { value: growInLimit });

  const nothing = () => {};
  const refuse = () => {
    throw new Error('refused');
  };
  // With `read` and `load` it takes this for a bare shell, the one host for which it wants nothing else.
  Object.assign(globalThis, {
    read: refuse,
    load: refuse,
    readbuffer: (path) => read(files[path.slice(path.lastIndexOf('/') + 1)] ?? refuse()).buffer,
    // How it asks a shell for random bytes.
    os: Object.freeze({ system: (_program, [, command]) => randomText(Number(/\d+/.exec(command)[0])) }),
    console: Object.freeze({ log: nothing, warn: nothing, error: nothing, info: nothing, debug: nothing }),
    performance: Object.freeze({ now: guarded(outside.now) }),
    setTimeout: (callback, delayMs) => later(callback, delayMs),
    clearTimeout: nothing,
    TextDecoder: class {
      decode(bytes) {
        return decode(bytes);
      }
    },
    TextEncoder: class {
      encodeInto(text, bytes) {
        return { written: encode(text, bytes) };
      }
    },
  });

  const load = (loader, interpreter, snapshot) =>
    loader.loadPyodide({
      createPyodideModule: interpreter.default,
      indexURL: '/sealed/',
      lockFileContents: { info: { abi_version: abiVersion }, packages: {} },
      env: { HOME: '/tmp' },
      jsglobals: Object.freeze(Object.create(null)),
      _makeSnapshot: snapshot === undefined,
      ...(snapshot === undefined ? {} : { _loadSnapshot: snapshot }),
    });

  const seal = (pyodide) => {
    const stream = (number) => ({ write: (bytes) => write(number, bytes) });
    pyodide.setStdin({ error: true });
    pyodide.setStdout(stream(1));
    pyodide.setStderr(stream(2));
    pyodide.unregisterJsModule('js');
    pyodide.unregisterJsModule('pyodide_js');
    for (const name of ['read', 'load', 'readbuffer', 'TextDecoder', 'TextEncoder']) delete globalThis[name];
  };
  return { load, seal, newBytes: (size) => new Uint8Array(size) };
}

const outside = {
  write: (number, bytes) => writeSync(number, bytes),
  decode: (bytes) => new TextDecoder().decode(bytes),
  encode: (text, bytes) => new TextEncoder().encodeInto(text, bytes).written,
  randomText: (size) => randomBytes(Math.min(size, 65_536)).toString('base64'),
  now: () => performance.now(),
  later: (callback, delayMs) => {
    setTimeout(() => callback(), delayMs);
  },
  read: (number) => readFile(number),
};
const files = { 'pyodide.asm.wasm': descriptor.wasm, 'python_stdlib.zip': descriptor.library };
const inRealm = (code) => vm.runInContext(code, realm);
const { load, seal, newBytes } = inRealm(`'use strict'; (${furnish})`)(outside, files, Number(memoryBytes), abiVersion);

function readFile(number) {
  const bytes = newBytes(fstatSync(number).size);
  for (let at = 0; at < bytes.length; ) at += readSync(number, bytes, at, bytes.length - at, at);
  return bytes;
}

async function moduleOf(number, name) {
  // Thrown as a string, since an error would belong to this realm.
  const refuse = () => {
    throw 'refused';
  };
  const module = new vm.SourceTextModule(Buffer.from(readFile(number)).toString('utf8'), {
    context: realm,
    identifier: `file:///sealed/${name}`,
    importModuleDynamically: refuse,
    initializeImportMeta: (meta) => {
      meta.url = `file:///sealed/${name}`;
    },
  });
  await module.link(refuse);
  await module.evaluate();
  return module.namespace;
}

async function start(snapshot) {
  const loader = await moduleOf(descriptor.loader, 'pyodide.mjs');
  const interpreter = await moduleOf(descriptor.interpreter, 'pyodide.asm.mjs');
  return load(loader, interpreter, snapshot);
}

function readJob() {
  const chunks = [];
  const chunk = Buffer.alloc(65_536);
  for (let size = readSync(descriptor.job, chunk); size > 0; size = readSync(descriptor.job, chunk)) {
    chunks.push(Buffer.from(chunk.subarray(0, size)));
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Loaded once for all programs, since each would spend its first second on them. */
const frequentModules = `import collections, datetime, decimal, fractions, functools, itertools, json, linecache, math
import operator, random, re, statistics, string, time, traceback, typing`;

const launcher = `
def launch(source, path="/job/main.py"):
    import linecache, os, random, sys, traceback
    os.environ.clear()
    os.environ["HOME"] = "/tmp"
    random.seed()
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    try:
        exec(compile(source, path, "exec"), {"__name__": "__main__", "__file__": path, "__builtins__": __builtins__})
        return 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int): return (end.code or 0) & 127
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        traceback.print_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
launch(source)
`;

async function makeSnapshot() {
  const pyodide = await start(undefined);
  pyodide.runPython(frequentModules);
  writeSync(1, pyodide.runPython('import platform; platform.python_version()'));
  const snapshot = pyodide.makeMemorySnapshot();
  for (let at = 0; at < snapshot.length; ) at += writeSync(descriptor.snapshot, snapshot, at);
}

async function runOneProgram() {
  const pyodide = await start(readFile(descriptor.snapshot));
  seal(pyodide);
  for (const number of Object.values(descriptor)) if (number !== descriptor.job) closeSync(number);
  writeSync(descriptor.job, word.ready);
  pyodide.globals.set('source', readJob());
  process.exit(exitCodeOf(() => pyodide.runPython(launcher)));
}

/** What gets past the launcher is a crash of the interpreter: then the word that all went its way is not said. */
function exitCodeOf(work) {
  try {
    const exitCode = Number(work());
    writeSync(descriptor.job, word.ended);
    return exitCode;
  } catch {
    return 1;
  }
}

await (mode === 'snapshot' ? makeSnapshot() : runOneProgram());
