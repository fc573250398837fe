import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { engineBench } from './engine.ts';
import { type BenchOptions, printReport, type Report } from './figures.ts';
import { loopBench } from './loop.ts';
import { relayBench } from './relay.ts';

const benches = new Map<string, (options: BenchOptions) => Promise<Report>>([
  ['relay', relayBench],
  ['loop', loopBench],
  ['engine', engineBench],
]);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    profile: { type: 'boolean', default: false },
    portkey: { type: 'boolean', default: false },
    only: { type: 'string' },
  },
});
const bench = benches.get(positionals[0] ?? '');
if (!bench || positionals.length > 1) {
  console.error(
    `usage: npm run bench -- ${[...benches.keys()].join('|')} [--quick] [--json] [--profile] [--portkey] [--only TEXT]`,
  );
  process.exit(2);
}

// What is measured is what is served: the compiled sources, as they are now.
execFileSync('npm', ['run', '--silent', 'build'], {
  cwd: fileURLToPath(new URL('..', import.meta.url)),
  stdio: 'inherit',
});
const home = mkdtempSync(join(tmpdir(), 'orchestra-bench-'));
try {
  console.log(`load of this machine before: ${loadavg()[0]?.toFixed(1)}`);
  const report = await bench({
    quick: values.quick,
    profile: values.profile,
    portkey: values.portkey,
    only: values.only,
    home,
  });
  printReport(report);
  console.log(`load of this machine after: ${loadavg()[0]?.toFixed(1)}`);
  if (values.json) console.log(JSON.stringify({ figures: report.figures }));
} finally {
  rmSync(home, { recursive: true, force: true });
}
