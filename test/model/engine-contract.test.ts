import { startLlamaEngine } from '../../src/inference/llama-engine.ts';
import { startEngine } from '../../src/inference/start-engine.ts';
import { engineContract } from './engine-contract.ts';

engineContract('the engine in this process', startLlamaEngine);
engineContract('the engine in a process of its own', startEngine);
