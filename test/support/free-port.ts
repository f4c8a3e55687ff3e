// A port of the loopback on which nobody listens, for a program that cannot be told to pick one itself.
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Below what the system hands out by itself (32768 and above on Linux): a port from there could be taken, before the
 * program listens, by any test that listens on port 0, and the two would get each other's requests.
 */
const [first, last] = [10_000, 32_000];

/** The workers that run tests at the same time pick from different ports: none takes what another one has just found free. */
// At least maxWorkers of vitest.config.ts.
const workers = 4;
const worker = Number(process.env["VITEST_POOL_ID"] ?? 0) % workers;
/** The ports returned last, which their programs may not have opened yet. */
const given: number[] = [];

/** `above`: as free is the port that is greater by this, which the program takes too. */
export async function freePort(above = 0): Promise<number> {
  for (;;) {
    const port = first + worker + workers * randomInt((last - first - above) / workers);
    const both = [...new Set([port, port + above])];
    if (both.some((each) => given.includes(each))) continue;
    given.push(...both);
    given.splice(0, given.length - 100);
    if ((await isFreePort(port)) && (await isFreePort(port + above))) return port;
  }
}

async function isFreePort(port: number): Promise<boolean> {
  const server = createServer();
  const isFree = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true));
  });
  if (!isFree) return false;
  server.close();
  await once(server, "close");
  return true;
}
