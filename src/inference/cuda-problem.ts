import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

/** What of CUDA lies on this machine; the library only says that it did not work. */
export interface CudaFacts {
  /** Major versions for which engines are installed. */
  readonly engines: readonly number[];
  /** The driver shows a GPU. */
  readonly hasDevice: boolean;
  /** File names of the libraries that the loader can find. */
  readonly libraries: ReadonlySet<string>;
}

/** What is in the way, and whose turn it is. */
export function cudaProblem({ engines, hasDevice, libraries }: CudaFacts): string {
  if (engines.length === 0) return 'no engine for it is installed; reinstall with optional packages';
  if (!hasDevice) return 'there is no NVIDIA device; load the driver, or hand the GPU to the container';
  if (!libraries.has('libcuda.so.1')) return 'the driver’s libcuda.so.1 is not found; install the driver’s libraries';
  const missing = engines.map((major) => runtimeOf(major).filter((name) => !libraries.has(name)));
  if (missing.some((names) => names.length === 0)) {
    return 'engine, runtime and driver do not work together; the driver may be too old for this CUDA';
  }
  const wanted = engines.join(' or ');
  const present = [...libraries].flatMap((name) => /^libcudart\.so\.(\d+)$/.exec(name)?.[1] ?? []);
  const others = present.filter((major) => !engines.includes(Number(major)));
  if (others.length > 0 && others.length === present.length) {
    return `the CUDA runtime here is ${others.join(', ')}, but the engine needs ${wanted}; install that one`;
  }
  const least = missing.reduce((fewest, names) => (names.length < fewest.length ? names : fewest));
  return `libraries of the CUDA runtime ${wanted} are missing (${least.join(', ')}); install it`;
}

const runtimeOf = (major: number): string[] => [`libcudart.so.${major}`, `libcublas.so.${major}`];

const packages = [
  { name: '@node-llama-cpp/linux-x64-cuda', major: 13 },
  { name: '@node-llama-cpp/linux-x64-cuda-ext', major: 12 },
];

/** @param libraryPath folders as LD_LIBRARY_PATH lists them. */
export function cudaFacts(libraryPath: string): CudaFacts {
  const { resolve } = createRequire(createRequire(import.meta.url).resolve('node-llama-cpp'));
  const isInstalled = (name: string) => {
    try {
      return resolve(`${name}/package.json`) !== '';
    } catch {
      return false;
    }
  };
  const folders = [...libraryPath.split(':'), ...usualFolders, ...configuredFolders()];
  return {
    engines: packages.filter(({ name }) => isInstalled(name)).map(({ major }) => major),
    hasDevice: existsSync('/dev/nvidiactl'),
    libraries: new Set(folders.filter((folder) => folder !== '').flatMap(namesIn)),
  };
}

const usualFolders = ['/lib/x86_64-linux-gnu', '/usr/lib/x86_64-linux-gnu', '/lib64', '/usr/lib64', '/usr/lib'];
const loaderFolder = '/etc/ld.so.conf.d';

/** Where the loader was told to look. */
function configuredFolders(): string[] {
  const files = namesIn(loaderFolder).filter((name) => name.endsWith('.conf'));
  const lines = files.flatMap((name) => linesOf(join(loaderFolder, name)));
  return lines.map((line) => line.trim()).filter((line) => line.startsWith('/'));
}

const namesIn = (folder: string): string[] => orNone(() => readdirSync(folder));
const linesOf = (file: string): string[] => orNone(() => readFileSync(file, 'utf8').split('\n'));

/** The loader passes over what it cannot read, and so do we. */
function orNone(read: () => string[]): string[] {
  try {
    return read();
  } catch {
    return [];
  }
}
