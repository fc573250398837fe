import { startEngine } from '../../src/inference/start-engine.ts';
import { engineOptions } from './tiny-models.ts';

/** A process whose only purpose is to own an engine until it is killed. */
await startEngine(engineOptions(process.argv[2] ?? ''));
process.stdout.write('ready\n');
setInterval(() => undefined, 1_000);
