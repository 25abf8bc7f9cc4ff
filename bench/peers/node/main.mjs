// main.mjs SYSTEM SCENARIO: runs a scenario of the peer contract and prints its figures as one line of JSON.
import { drain, limited, serial, work } from './drain.mjs';
import { enqueue } from './enqueue.mjs';
import { latency } from './latency.mjs';
import { mixed } from './mixed.mjs';
import { versionOf } from './settings.mjs';
import { adapterOf, peerOf } from './systems.mjs';

const COMMANDS = { enqueue, drain, work, serial, limited, latency, mixed };
const [system, scenario] = process.argv.slice(2);
console.log = console.error; // stdout is for the figures

try {
  const command = COMMANDS[scenario];
  if (!command) throw new Error(`no scenario ${JSON.stringify(scenario)}: there are ${Object.keys(COMMANDS).join(', ')}`);
  const adapter = await adapterOf(system);
  const version = versionOf(adapter.packageName);
  const expected = peerOf(system).version;
  if (version !== expected) throw new Error(`${adapter.packageName} ${version} is installed, peer.json says ${expected}: run install`);
  const { settings, figures } = await command(adapter, system);
  const line = JSON.stringify({ version, settings: { node: process.version, ...settings }, figures });
  process.stdout.write(`${line}\n`, () => process.exit(0));
} catch (error) {
  console.error(`${system} ${scenario}: ${error.stack ?? error}`);
  process.exit(1);
}
