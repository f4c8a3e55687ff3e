// What an open console costs. Two gateways in turn, both with a million clients in their tables and 20 refused requests a second;
// the page of one is open in a browser and follows them live: CPU time of a GET as ratios of neighbouring rounds. Then its list of
// clients, its memory over minutes, its first paint on loopback, and its size.
// Usage: npm run build && node bench/console.ts [--minutes N] [--rounds N] [--seconds N] [--clients N]. Needs nginx, wrk, taskset
// and Debian's chromium.
import { createHash } from "node:crypto";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Browser, chromium, type Page } from "playwright-core";
import { median } from "./figures.ts";
import { gatewayFrame } from "./gateway-config.ts";
import { wrk } from "./load.ts";
import { configOfMany, fillTable } from "./many-clients.ts";
import { cpuTimeUs, freePort, type Running, start } from "./processes.ts";
import { startUpstream } from "./upstream.ts";

const number = { type: "string" } as const;
const { values } = parseArgs({ options: { minutes: number, rounds: number, seconds: number, clients: number } });
const minutes = Number(values.minutes ?? 10);
const rounds = Number(values.rounds ?? 7);
const seconds = Number(values.seconds ?? 6);
const clients = Number(values.clients ?? 1_000_000);
const updatesPerSecond = 20;
const sampleSeconds = 30;
const paints = 9;
const token = "token-of-the-bench";
const headers = { Authorization: "Bearer x" };
const cores = { contender: 1, load: 0 };
const main = join(import.meta.dirname, "..", "dist/main.js");
const folder = mkdtempSync(join(tmpdir(), "headgate-console-"));
const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Of all files that it has loaded, runs in the page. */
const sizeOfPage = `(async () => {
  const names = performance.getEntriesByType("resource").map(({ name }) => name).filter((name) => name.includes("/console/"));
  const files = [location.pathname, ...new Set(names)];
  const sizes = files.map(async (name) => (await (await fetch(name)).arrayBuffer()).byteLength);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
})()`;

interface Gateway {
  readonly port: number;
  readonly admin: number;
  readonly running: Running;
}

const upstream = await startUpstream(folder, cores.load);
const gateways: Gateway[] = [];
let browser: Browser | null = null;
let isOver = false;
try {
  for (const name of ["plain", "watched"]) gateways.push(await startGateway(name));
  const [plain, watched] = gateways as [Gateway, Gateway];
  for (const { port } of gateways) await fillTable(port, clients);
  const refusing = Promise.all(gateways.map(sendRefused));
  browser = await openBrowser();
  await measurePaint(browser, watched);
  const page = await open(browser, watched);
  await page
    .getByRole("row", { name: /429 throttled/ })
    .first()
    .waitFor();
  await measureCpu(plain, watched);
  await measureList(page);
  await measureMemory(page);
  isOver = true;
  await refusing;
} finally {
  isOver = true;
  await browser?.close();
  for (const { running } of gateways) await running.stop();
  await upstream.running.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function startGateway(name: string): Promise<Gateway> {
  const [port, admin, config, tokens] = [
    await freePort(),
    await freePort(),
    join(folder, `${name}.yaml`),
    join(folder, "tokens.txt"),
  ];
  writeFileSync(tokens, `${createHash("sha256").update(token).digest("hex")} write # bench\n`);
  const frame = gatewayFrame({ port, admin, upstreamPort: upstream.port }).replace(
    /^admin: .*$/m,
    `admin: { host: 127.0.0.1, port: ${admin}, tokensFile: ${tokens} }`,
  );
  const policies =
    "policies: [{ name: per-client, limit: 1000000000, window: 1h }, { name: few, limit: 1, window: 1h, match: { paths: [/v1/] } }]";
  writeFileSync(config, configOfMany(frame, policies));
  const running = await start([process.execPath, main, "start", "--config", config], { core: cores.contender, port });
  return { port, admin, running };
}

/** Until the end. */
async function sendRefused({ port }: Gateway): Promise<void> {
  const agent = new Agent({ keepAlive: true });
  while (!isOver) {
    const pause = sleep(1000 / updatesPerSecond);
    await new Promise<void>((resolve, reject) => {
      const sent = request({ agent, host: "127.0.0.1", port, path: "/v1/200b", headers }, (response) => {
        response.resume();
        response.once("end", resolve);
      });
      sent.once("error", reject);
      sent.end();
    });
    await pause;
  }
  agent.destroy();
}

/** On the core of the load, so that it takes no time from the gateways. */
function openBrowser(): Promise<Browser> {
  const pinned = join(folder, "chromium");
  writeFileSync(pinned, `#!/bin/sh\nexec taskset -c ${cores.load} /usr/bin/chromium "$@"\n`);
  chmodSync(pinned, 0o755);
  return chromium.launch({ executablePath: pinned, chromiumSandbox: false });
}

async function open(from: Browser, { admin }: Gateway): Promise<Page> {
  const page = await (await from.newContext()).newPage();
  await page.goto(`http://127.0.0.1:${admin}/console/`);
  await page.getByLabel("Token of the admin API").fill(token);
  await page.keyboard.press("Enter");
  return page;
}

async function measurePaint(from: Browser, gateway: Gateway): Promise<void> {
  const found: number[] = [];
  let bytes = 0;
  for (let i = 0; i < paints; i += 1) {
    const page = await open(from, gateway);
    await page.getByText("live", { exact: true }).waitFor();
    found.push(await page.evaluate<number>('performance.getEntriesByName("first-contentful-paint")[0].startTime'));
    bytes = await page.evaluate<number>(sizeOfPage);
    await page.context().close();
  }
  say(`first contentful paint: median ${Math.round(median(found))} ms of ${found.map(Math.round).join(", ")}`);
  say(`files of the page: ${bytes} bytes`);
}

async function measureCpu(plain: Gateway, watched: Gateway): Promise<void> {
  const ratios: number[] = [];
  // Code that is compiled while it is measured would be the difference.
  for (const gateway of [plain, watched]) await cpuOfGet(gateway);
  for (let round = 0; round < rounds; round += 1) {
    const [without, withPage] = [await cpuOfGet(plain), await cpuOfGet(watched)];
    ratios.push(withPage / without);
    say(`round ${round + 1}: ${without.toFixed(1)} µs, ${withPage.toFixed(1)} µs with the page open`);
  }
  const range = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`;
  say(`CPU of a GET with the page open × without: ${median(ratios).toFixed(3)} (${range})`);
}

async function cpuOfGet({ port, running: { pid } }: Gateway): Promise<number> {
  const before = cpuTimeUs(pid);
  const load = { path: "/v2/200b", connections: 50, seconds, headers } as const;
  const { requests, errors, refused } = await wrk(port, load, folder, cores.load);
  if (errors + refused > 0) throw new Error(`${errors} errors, ${refused} refused`);
  return (cpuTimeUs(pid) - before) / requests;
}

/** The view of the clients, found by a part of an address. */
async function measureList(page: Page): Promise<void> {
  await page.getByRole("link", { name: "Clients" }).click();
  await page.getByLabel("Filter").fill("10.0.7.");
  const begunMs = performance.now();
  await page
    .getByRole("row", { name: /10\.0\.7\./ })
    .first()
    .waitFor();
  const rows = await page.getByRole("row").count();
  say(`one client of ${clients} found after ${Math.round(performance.now() - begunMs)} ms; ${rows} rows on the page`);
  await page.getByRole("link", { name: "Now" }).click();
}

async function measureMemory(page: Page): Promise<void> {
  const debuggerOf = await page.context().newCDPSession(page);
  await debuggerOf.send("Performance.enable");
  for (let passed = 0; passed <= minutes * 60; passed += sampleSeconds) {
    await debuggerOf.send("HeapProfiler.collectGarbage");
    const { metrics } = await debuggerOf.send("Performance.getMetrics");
    const figure = (name: string): number => metrics.find((metric) => metric.name === name)?.value ?? 0;
    const heap = (figure("JSHeapUsedSize") / 1e6).toFixed(2);
    say(`${passed} s: heap ${heap} MB, ${figure("Nodes")} nodes, ${figure("JSEventListeners")} listeners`);
    if (passed < minutes * 60) await sleep(sampleSeconds * 1000);
  }
}
