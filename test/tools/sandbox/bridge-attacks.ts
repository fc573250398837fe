import type { Escape } from './attacks.ts';

/** Attacks from Python through Pyodide's bridge to JavaScript. Each gets out of a plain Pyodide in Node. */

/** Collects what JavaScript Python can reach although no module offers it; `api` is Pyodide's own interface. */
const reach = `
import gc, sys
from pyodide.ffi import JsProxy, to_js
seen, stack, roots = set(), [sys.modules, *gc.get_objects()], []
while stack:
  item = stack.pop()
  if id(item) in seen: continue
  seen.add(id(item))
  if isinstance(item, JsProxy): roots.append(item)
  else: stack.extend(gc.get_referents(item))
api = next(root for root in roots if hasattr(root, "_api"))
`;

const text = (value: string) => JSON.stringify(value);

export const bridgeAttacks: readonly Escape[] = [
  {
    name: 'asks the js module for the environment',
    code: () => 'import js\nprint(js.process.env.ORCHESTRA_TEST_SECRET)',
    escaped: ({ secret }, output) => output.includes(secret),
  },
  {
    name: 'has JavaScript evaluated',
    code: () => 'from pyodide.code import run_js\nprint(run_js("process.env.ORCHESTRA_TEST_SECRET"))',
    escaped: ({ secret }, output) => output.includes(secret),
  },
  {
    name: 'climbs from a list to the maker of functions',
    code: () =>
      'from pyodide.ffi import to_js\nprint(to_js([1]).constructor.constructor("return process.env.ORCHESTRA_TEST_SECRET")())',
    escaped: ({ secret }, output) => output.includes(secret),
  },
  {
    name: 'mounts a folder of the host by the interface that it finds in memory',
    code: ({ folder }) => `${reach}api.mountNodeFS("/outside", ${text(folder)})\nprint(open("/outside/secret").read())`,
    escaped: ({ secret }, output) => output.includes(secret),
  },
  {
    name: 'mounts a folder of the host by the file system below',
    code: ({ folder }) =>
      `${reach}options = to_js({"root": ${text(folder)}}, dict_converter=api.constructor.fromEntries)\napi.FS.mkdir("/below")\napi.FS.mount(api.FS.filesystems.NODEFS, options, "/below")\nprint(open("/below/secret").read())`,
    escaped: ({ secret }, output) => output.includes(secret),
  },
  {
    name: 'has a file of the host loaded',
    code: ({ secretPath }) =>
      `${reach}from pyodide.ffi import create_proxy\nshow = create_proxy(lambda data: print(bytes(data).decode()))\napi._api.loadBinaryFile(${text(secretPath)}).then(show, create_proxy(print))`,
    escaped: ({ secret }, output) => output.includes(secret),
  },
  {
    name: 'fetches a page of the host',
    code: ({ port }) => `import js\njs.fetch("http://127.0.0.1:${port}/")`,
    escaped: ({ contacts }) => contacts() > 0,
  },
  {
    name: 'signals a process of the host',
    code: ({ victimPid }) => `import js\njs.process.kill(${victimPid}, "SIGKILL")`,
    escaped: ({ victimLives }) => !victimLives(),
  },
];

/** Turns Node's sockets on, which no seal on Python's own modules prevents, and uses them. */
export const socketRoute = (port: number) => `${reach}
import socket
for action in (
  lambda: setattr(api._api.runtimeEnv, "IN_NODE", True),
  lambda: api.useNodeSockFS(),
  lambda: api._api.initializeNodeSockFS(),
  lambda: socket.create_connection(("127.0.0.1", ${port}), 1),
):
  try: action()
  except BaseException as error: print(type(error).__name__)
`;

/**
 * Walks through all of JavaScript that Python can reach and prints how much that was, and every object that does not
 * descend from the realm's own: a way out would begin at one.
 */
export const walk = `${reach}
Object = api.constructor
is_same, parent_of, describe = getattr(Object, "is"), Object.getPrototypeOf, Object.getOwnPropertyDescriptor
visited, queue, foreign = to_js(set()), [(str(index), root) for index, root in enumerate(roots)], []
def oldest(item):
  while isinstance(parent_of(item), JsProxy): item = parent_of(item)
  return item
def is_bytes(item):
  try: return hasattr(item, "byteLength")
  except BaseException: return False
def parts(path, item):
  yield path + ".<parent>", parent_of(item)
  if is_bytes(item): return
  for key in [*Object.getOwnPropertyNames(item), *Object.getOwnPropertySymbols(item)]:
    if isinstance(key, str) and key.isdigit() and int(key) > 20: continue
    try: found = describe(item, key)
    except BaseException: continue
    for part in ("value", "get", "set"): yield f"{path}.{key}", getattr(found, part, None)
while queue:
  path, item = queue.pop()
  # The mere use of this mark of Pyodide's own ends the interpreter.
  if path.endswith(".novalue") or not isinstance(item, JsProxy) or visited.has(item): continue
  visited.add(item)
  ancestor = oldest(item)
  if not is_same(ancestor, Object.prototype) and not is_same(ancestor, item): foreign.append(path)
  try: queue.extend(part for part in parts(path, item) if isinstance(part[1], JsProxy))
  except BaseException: pass
print(visited.size, foreign)
`;
