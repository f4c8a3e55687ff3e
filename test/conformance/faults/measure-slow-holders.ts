// What one client that behaves gets while all connections to the upstream are held by transfers that move a little more than
// the minimum rate. Run by hand; a figure is no test. The results stand in docs/threat-model.md.
//   node test/conformance/faults/measure-slow-holders.ts BYTES_PER_SECOND [KEY=VALUE …]
import { setTimeout as sleep } from "node:timers/promises";
import { type Attack, askHonestly, attack, carriers, kinds, startTarget, uploadHonestly } from "./slow-holders.ts";

const requests = 100;
const uploads = 10;
/** What a throttled line has. */
const uploadBytesPerSecond = 8 * 1024;
/** Long enough for all holders to be there, and for the kernel's buffers to be full. */
const settlingMs = 8_000;
const active = 'headgate_upstream_connections{state="active"}';

async function measure(options: Attack, settings: readonly string[]): Promise<string> {
  const open: (() => unknown)[] = [];
  const cleanup = (close: () => unknown): void => void open.push(close);
  try {
    const target = await startTarget(cleanup, options.carrier, settings);
    const cuts = attack(cleanup, target, options);
    await sleep(settlingMs);
    const held = (await target.gateway.figures()).get(active);
    const before = cuts();
    const beganMs = performance.now();
    const answers = await askHonestly(target, requests);
    const cutsPerSecond = (cuts() - before) / ((performance.now() - beganMs) / 1000);
    const tookMs = answers.map(({ tookMs }) => tookMs).toSorted((a, b) => a - b);
    const good = answers.filter(({ status }) => status === 200).length;
    const at = (share: number): string => (tookMs[Math.floor((tookMs.length - 1) * share)] ?? Number.NaN).toFixed(0);
    const arrived = await uploadHonestly(target, uploads, uploadBytesPerSecond);
    return `${held} | ${good} | ${at(0.5)} | ${at(1)} | ${arrived} of ${uploads} | ${cutsPerSecond.toFixed(1)}`;
  } finally {
    for (const close of open.reverse()) await close();
  }
}

const [rate = "4300", ...settings] = process.argv.slice(2);
process.stdout.write(
  "| over | transfers | addresses | B/s | held | answered of 100 | median ms | longest ms | uploads at 8 KiB/s | holders cut off a second |\n|---|---|---|---|---|---|---|---|---|---|\n",
);
for (const carrier of carriers) {
  for (const kind of kinds) {
    for (const addresses of [3, 300]) {
      const options = { carrier, kind, addresses, bytesPerSecond: Number(rate) };
      const figures = await measure(options, settings);
      process.stdout.write(`| ${carrier} | ${kind} | ${addresses} | ${rate} | ${figures} |\n`);
    }
  }
}
