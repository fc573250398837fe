/** What one run of code may use. Going over any of them ends the run; it never ends the gateway. */
export interface CodeLimits {
  readonly wallMs: number;
  readonly cpuSeconds: number;
  readonly memoryBytes: number;
  /** Of standard output; going over ends the run. Of standard error the last bytes are kept. */
  readonly outputBytes: number;
  readonly errorBytes: number;
  /** The scratch folder: everything in it together, and each file. */
  readonly diskBytes: number;
  /** Threads, since processes cannot be made at all. */
  readonly threads: number;
}

export const defaultCodeLimits: CodeLimits = {
  wallMs: 15_000,
  cpuSeconds: 10,
  memoryBytes: 1024 ** 3,
  outputBytes: 65_536,
  errorBytes: 16_384,
  diskBytes: 64 * 1024 ** 2,
  threads: 64,
};

/** How a run ended. `killed` is a limit that the kernel enforced, `unavailable` a sandbox that did not start. */
export type CodeStatus = 'ok' | 'exception' | 'timeout' | 'killed' | 'output_limit' | 'unavailable';

export interface CodeResult {
  readonly status: CodeStatus;
  readonly stdout: string;
  /** Its tail, where Python puts the exception. */
  readonly stderr: string;
  readonly durationMs: number;
}

export interface CodeJob {
  readonly code: string;
  readonly signal: AbortSignal;
}

/**
 * Runs Python written by a model, which is hostile until shown otherwise: no network, no files of the host, no
 * environment, no further processes, nothing left behind.
 */
export interface CodeSandbox {
  readonly name: string;
  /** `3.11.7`. */
  readonly pythonVersion: string;
  /** Installed beside the standard library: `numpy`, `sympy`. */
  readonly packages: readonly string[];
  readonly limits: CodeLimits;
  /** Whatever the code does is a result. @throws AbortError when the signal fires; by then the code is dead. */
  execute(job: CodeJob): Promise<CodeResult>;
  /** Ends whatever it keeps ready. */
  close(): void;
}
