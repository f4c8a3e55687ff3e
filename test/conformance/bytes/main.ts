// npm run test:bytes -- [--minutes 10 | --bodies 2000] [--large 10] [--uploads 0] [--clients 8] [--seed 1] [--place plugin]: passes bodies
// over all carriers, and says which came out otherwise than they went in. One in `--large` has more than
// 12 MiB, over HTTP/2 three.
import { parseArgs } from "node:util";
import { cleanupTo } from "../../support/closing.ts";
import { allPlaces, nameOf, passBodies } from "./run.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string" },
    bodies: { type: "string", default: "2000" },
    large: { type: "string", default: "10" },
    uploads: { type: "string", default: "0" },
    clients: { type: "string", default: "8" },
    place: { type: "string", default: "" },
    seed: { type: "string", default: "1" },
  },
});
const print = (line: string): void => void process.stdout.write(`${line}\n`);
const opened: (() => unknown)[] = [];
const result = await passBodies(
  cleanupTo((close) => void opened.push(close)),
  {
    places: allPlaces.filter((place) => nameOf(place).startsWith(values.place)),
    seed: Number(values.seed),
    amount: values.minutes === undefined ? { bodies: Number(values.bodies) } : { seconds: 60 * Number(values.minutes) },
    largeOneIn: Number(values.large),
    uploads: Number(values.uploads),
    clients: Number(values.clients),
  },
);
for (const close of opened.reverse()) await close();
for (const fault of result.faults) print(fault);
for (const [name, bodies] of Object.entries(result.by)) print(`${name}: ${bodies} bodies`);
const { bodies, large, aborted, endsLost, wrong, bytes, seconds } = result;
print(`${bodies} bodies, ${large} over 12 MiB, ${aborted} broken off, ${wrong} wrong`);
if (endsLost > 0) print(`${endsLost} complete, but reset before their last frame by the HTTP/2 of Node in an app`);
print(`${(bytes / 2 ** 30).toFixed(1)} GiB in ${seconds} s`);
if (wrong > 0) process.exitCode = 1;
