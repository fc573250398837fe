import { expect, test } from 'vitest';
import { type FilterArchitecture, seccompFilter } from '../../../src/tools/sandbox/seccomp.ts';
import { deniedSyscalls } from '../../../src/tools/sandbox/syscalls.ts';

/** A classic BPF machine of its own, after the kernel's description: what the filter answers to one system call. */
function verdict(program: Buffer, call: { architecture: number; number: number; firstArgument?: number }): string {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(call.number, 0);
  data.writeUInt32LE(call.architecture, 4);
  data.writeUInt32LE(call.firstArgument ?? 0, 16);
  let accumulator = 0;
  for (let at = 0; at * 8 < program.length; at += 1) {
    const code = program.readUInt16LE(at * 8);
    const operand = program.readUInt32LE(at * 8 + 4);
    const jump = (holds: boolean) => {
      at += program.readUInt8(at * 8 + (holds ? 2 : 3));
    };
    if (code === 0x20) accumulator = data.readUInt32LE(operand);
    else if (code === 0x15) jump(accumulator === operand);
    else if (code === 0x35) jump(accumulator >= operand);
    else if (code === 0x45) jump((accumulator & operand) !== 0);
    else if (code === 0x06) return names.get(operand) ?? `errno ${operand - 0x50000}`;
    else throw new Error(`unknown instruction ${code}`);
  }
  throw new Error('the program runs off its end');
}

const names = new Map([
  [0x7fff0000, 'allow'],
  [0x80000000, 'kill'],
]);

const eperm = 'errno 1';
const enosys = 'errno 38';
const thread = 0x003d0f00;
const machines: readonly [FilterArchitecture, number, { read: number; mmap: number; execve: number; clone: number }][] =
  [
    ['x64', 0xc000003e, { read: 0, mmap: 9, execve: 59, clone: 56 }],
    ['arm64', 0xc00000b7, { read: 63, mmap: 222, execve: 221, clone: 220 }],
  ];

for (const [name, architecture, known] of machines) {
  const program = seccompFilter(name);
  const answer = (number: number, firstArgument = 0) => verdict(program, { architecture, number, firstArgument });

  test(`on ${name} every listed call is refused`, () => {
    const column = name === 'x64' ? 0 : 1;
    const numbers = Object.values(deniedSyscalls)
      .map((pair) => pair[column])
      .filter((number) => number !== undefined);
    expect(numbers.length).toBeGreaterThan(75);
    expect(new Set(numbers).size).toBe(numbers.length);
    expect(numbers.filter((number) => answer(number) !== eperm)).toEqual([]);
  });

  test(`on ${name} ordinary calls pass`, () => {
    expect([known.read, known.mmap, known.execve].map((number) => answer(number))).toEqual(['allow', 'allow', 'allow']);
  });

  test(`on ${name} clone makes threads, but neither processes nor namespaces`, () => {
    expect(answer(known.clone, thread)).toBe('allow');
    expect(answer(known.clone, 17)).toBe(eperm);
    expect(answer(known.clone, thread | 0x10000000)).toBe(eperm);
    expect(answer(435)).toBe(enosys);
  });

  test(`on ${name} a call of another architecture kills`, () => {
    expect(verdict(program, { architecture: 0x40000003, number: known.read })).toBe('kill');
  });
}

test('calls of the x32 interface kill, since they would pass under other numbers', () => {
  expect(verdict(seccompFilter('x64'), { architecture: 0xc000003e, number: 0x40000000 + 41 })).toBe('kill');
});
