import { execFile } from 'node:child_process';
import { realpath } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';

/** A file or folder of the host and where the sandbox sees it, read-only. */
export interface Bind {
  readonly source: string;
  readonly target: string;
}

/** A Python of the host, reduced to what has to be visible for it to run. */
export interface PythonRuntime {
  readonly version: string;
  readonly packages: readonly string[];
  readonly binds: readonly Bind[];
  /** Folders inside the binds that must appear empty: whatever else is installed on the host. */
  readonly hidden: readonly string[];
}

/** Inside the sandbox everything has one fixed place, so that code learns nothing about the host's layout. */
export const inside = {
  python: '/python/bin/python3',
  libraries: '/python/so',
  packages: '/packages',
} as const;

const offeredPackages = ['numpy', 'sympy', 'mpmath'] as const;

/** Runs on the host, once, in the interpreter that the operator already trusts. */
const probe = `
import glob, importlib.util, json, os, sys, sysconfig
stdlib = sysconfig.get_path("stdlib")
packages = {}
for name in ${JSON.stringify(offeredPackages)}:
    spec = importlib.util.find_spec(name)
    if spec and spec.submodule_search_locations:
        packages[name] = os.path.realpath(spec.submodule_search_locations[0])
extensions = [path for path in glob.glob(os.path.join(stdlib, "lib-dynload", "*.so")) if "tkinter" not in path]
for folder in packages.values():
    extensions += glob.glob(os.path.join(folder, "**", "*.so"), recursive=True)
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "prefix": sys.base_prefix,
    "stdlib": stdlib,
    "packages": packages,
    "vendored": [folder + ".libs" for folder in packages.values() if os.path.isdir(folder + ".libs")],
    "hidden": [name for name in ("site-packages", "dist-packages") if os.path.isdir(os.path.join(stdlib, name))],
    "extensions": extensions,
}))
`;

const probeResult = z.object({
  version: z.string().refine((version) => /^3\.(8|9|\d\d+)\./.test(version), 'Python 3.8 or newer is needed'),
  executable: z.string(),
  prefix: z.string(),
  stdlib: z.string(),
  packages: z.record(z.string(), z.string()),
  vendored: z.array(z.string()),
  hidden: z.array(z.string()),
  extensions: z.array(z.string()),
});

const run = promisify(execFile);
const hostCall = { timeout: 30_000, maxBuffer: 16 * 1024 ** 2 } as const;

/** @throws when there is no such interpreter or it cannot be examined. */
export async function findPython(command: string): Promise<PythonRuntime> {
  const { stdout } = await run(command, ['-I', '-c', probe], hostCall);
  const found = probeResult.parse(JSON.parse(stdout));
  const stdlib = join('/python', relative(found.prefix, found.stdlib));
  const packages = Object.values(found.packages);
  return {
    version: found.version,
    packages: Object.keys(found.packages),
    hidden: found.hidden.map((name) => join(stdlib, name)),
    binds: [
      { source: found.executable, target: inside.python },
      { source: await realpath(found.stdlib), target: stdlib },
      ...[...packages, ...found.vendored].map((source) => ({
        source,
        target: join(inside.packages, basename(source)),
      })),
      ...(await sharedLibraries([found.executable, ...found.extensions], packages)),
    ],
  };
}

/** The closure of shared libraries, as the dynamic linker resolves it, without those that packages carry themselves. */
async function sharedLibraries(binaries: readonly string[], carriers: readonly string[]): Promise<Bind[]> {
  const { stdout } = await run('ldd', [...binaries], hostCall);
  const carried = new Set(carriers.map(dirname));
  const isCarried = (path: string) => [...carried].some((folder) => path.startsWith(`${folder}/`));
  const targets = new Map<string, string>();
  for (const [, name, path] of stdout.matchAll(/^\s*(\S+) => (\/\S+) \(0x/gm)) {
    if (name && path && !isCarried(path)) targets.set(join(inside.libraries, basename(name)), path);
  }
  // The linker itself has an absolute name in every binary.
  for (const [, linker] of stdout.matchAll(/^\s*(\/\S+) \(0x/gm)) if (linker) targets.set(linker, linker);
  targets.set(join(inside.libraries, gccRuntime), join(cLibraryFolder(stdout), gccRuntime));
  const binds = [...targets].map(async ([target, path]) => {
    const source = await realpath(path).catch(() => undefined);
    return source === undefined ? [] : [{ source, target }];
  });
  return (await Promise.all(binds)).flat();
}

/** glibc loads it by name when a thread ends, so no binary mentions it. */
const gccRuntime = 'libgcc_s.so.1';

const cLibraryFolder = (lddOutput: string): string =>
  dirname(/=> (\/\S+\/libc\.so\.6) /.exec(lddOutput)?.[1] ?? '/lib/-');
