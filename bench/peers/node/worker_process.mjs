// A worker in a process of its own: gets ready, waits for "go", tells how many jobs it handled while it
// works, and hands its tally over when told to stop. Its parent is workers.mjs.
import { setTimeout as sleep } from 'node:timers/promises';
import { adapterOf } from './systems.mjs';
import { Tally } from './tally.mjs';

const REPORT_MS = 10;
const received = [];
let wake = () => {};
process.on('message', message => { received.push(message); wake(); });
process.on('disconnect', () => process.exit(1)); // the parent is gone: nobody wants the rest

async function next() {
  while (received.length === 0) await new Promise(resolve => (wake = resolve));
  return received.shift();
}

const send = message => new Promise((resolve, reject) => process.send(message, error => (error ? reject(error) : resolve())));

const { system, options, sleepMs } = await next();
const adapter = await adapterOf(system);
const tally = new Tally();
const handle = sleepMs
  ? async args => { await sleep(sleepMs); tally.mark(args); }
  : async args => { tally.mark(args); };
const worker = await adapter.openWorker(options, handle);
await send({ ready: worker.settings });

const { go } = await next();
tally.start(go);
await worker.start();
let told = 0;
const report = setInterval(() => {
  if (tally.handled !== told) process.send({ handled: (told = tally.handled) });
}, REPORT_MS);

await next(); // stop
clearInterval(report);
await worker.stop();
await send({ tally: tally.snapshot() });
process.exit(0);
