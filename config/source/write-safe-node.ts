// `npm run safe-node`: renews the table of the lowest safe releases of Node in src/commands/safe-node.ts. Asks nodejs.org.
import { readFileSync, writeFileSync } from "node:fs";
import { type NodeRelease, renewed } from "./safe-node.ts";

const file = new URL("../../src/commands/safe-node.ts", import.meta.url);
const answer = await fetch("https://nodejs.org/dist/index.json");
if (!answer.ok) throw new Error(`the list of releases: ${answer.status}`);
const releases = (await answer.json()) as readonly NodeRelease[];
writeFileSync(file, renewed(readFileSync(file, "utf8"), releases));
