import { clone, clone3, deniedSyscalls } from './syscalls.ts';

/**
 * The seccomp filter as bytes of classic BPF, the form that bubblewrap takes. Denied calls fail with EPERM, so that
 * Python raises an ordinary exception; a call of another architecture (or x32) kills, since its numbers mean other
 * things.
 */

export type FilterArchitecture = 'x64' | 'arm64';

export const isFilterArchitecture = (value: string): value is FilterArchitecture =>
  value === 'x64' || value === 'arm64';

const auditArchitecture: Record<FilterArchitecture, number> = { x64: 0xc000003e, arm64: 0xc00000b7 };

const opcode = { load: 0x20, jumpEqual: 0x15, jumpAtLeast: 0x35, jumpAnyBit: 0x45, return: 0x06 } as const;
const verdict = { allow: 0x7fff0000, killProcess: 0x80000000, errno: 0x00050000 } as const;
const eperm = 1;
const enosys = 38;

/** Offsets in `struct seccomp_data`; the argument's low half, both architectures being little-endian. */
const offset = { number: 0, architecture: 4, firstArgument: 16 } as const;

const firstX32Call = 0x40000000;
const cloneThread = 0x00010000;
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET; `clone` itself knows no NEWTIME. */
const cloneNewNamespaces = 0x7e020000;

interface Instruction {
  readonly code: number;
  readonly operand: number;
  /** How many instructions to skip when the test holds, and when it does not. */
  readonly skip?: readonly [whenTrue: number, whenFalse: number];
}

const load = (operand: number): Instruction => ({ code: opcode.load, operand });
const stop = (operand: number): Instruction => ({ code: opcode.return, operand });
const deny = (errno: number): Instruction => stop(verdict.errno + errno);
const unless = (code: number, operand: number): Instruction => ({ code, operand, skip: [0, 1] });

/** Returns `errno` for one system call and goes on for every other. */
const refuse = (number: number | undefined, errno = eperm): readonly Instruction[] =>
  number === undefined ? [] : [unless(opcode.jumpEqual, number), deny(errno)];

/** Threads are fine, processes and namespaces are not. */
const threadsOnly = (number: number): readonly Instruction[] => [
  { code: opcode.jumpEqual, operand: number, skip: [0, 5] },
  load(offset.firstArgument),
  { code: opcode.jumpAnyBit, operand: cloneNewNamespaces, skip: [1, 0] },
  { code: opcode.jumpAnyBit, operand: cloneThread, skip: [1, 0] },
  deny(eperm),
  stop(verdict.allow),
];

export function seccompFilter(architecture: FilterArchitecture): Buffer {
  const column = architecture === 'x64' ? 0 : 1;
  return assemble([
    load(offset.architecture),
    { code: opcode.jumpEqual, operand: auditArchitecture[architecture], skip: [1, 0] },
    stop(verdict.killProcess),
    load(offset.number),
    ...(architecture === 'x64' ? [unless(opcode.jumpAtLeast, firstX32Call), stop(verdict.killProcess)] : []),
    ...Object.values(deniedSyscalls).flatMap((numbers) => refuse(numbers[column])),
    // Its flags lie in memory that a filter cannot read; "not there" makes the C library fall back to `clone`.
    ...refuse(clone3[column], enosys),
    ...threadsOnly(clone[column] ?? 0),
    stop(verdict.allow),
  ]);
}

/** `struct sock_filter`: 16 bits code, 8 and 8 bits jumps, 32 bits operand. */
function assemble(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(program.length * 8);
  program.forEach(({ code, operand, skip = [0, 0] }, index) => {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(skip[0], index * 8 + 2);
    bytes.writeUInt8(skip[1], index * 8 + 3);
    bytes.writeUInt32LE(operand, index * 8 + 4);
  });
  return bytes;
}
