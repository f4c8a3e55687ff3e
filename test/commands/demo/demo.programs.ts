// `headgate demo` as a user starts it: what it answers, who uses it, and that nothing of it stays.
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { readQuota } from "../../../src/client/index.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually, within } from "../../support/eventually.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { headgate, portOf, type Run } from "../command-process.ts";

const cleanup = useCleanup();

interface Demo extends Run {
  readonly url: string;
  readonly adminUrl: string;
  readonly backendUrl: string;
  /** Where it keeps its files. */
  readonly folder: string;
  readonly code: string;
  readonly token: string;
  api(path: string): Promise<unknown>;
}

async function startDemo(...args: readonly string[]): Promise<Demo> {
  const folder = scratchFolder(cleanup);
  const started = headgate(["demo", "--port", "0", "--admin-port", "0", ...args], { TMPDIR: folder });
  const [, adminUrl = "", code = ""] = await started.until(/console +(http:\/\/\S+)\/console\/#code=([\w-]{43})\n/);
  const [, token = ""] = await started.until(/token +([\w-]{43}) /);
  const [, url = ""] = await started.until(/gateway +(http:\/\/\S+)/);
  const [, backendUrl = ""] = await started.until(/backend +(http:\/\/\S+)/);
  const headers = { authorization: `Bearer ${token}` };
  const api = async (path: string): Promise<unknown> => (await fetch(`${adminUrl}${path}`, { headers })).json();
  return { ...started, url, adminUrl, backendUrl, folder, code, token, api };
}

/** Sends the signal. Resolves when nothing is left of the demo: before the 25 s are over that a drain may take. */
async function expectEnd({ process, exited, output, url, adminUrl, backendUrl, folder }: Demo, signal: NodeJS.Signals) {
  expect(readdirSync(folder)).toHaveLength(1);
  process.kill(signal);
  expect(await within(`it ends by ${signal}`, exited, 20_000)).toBe(0);
  expect(readdirSync(folder)).toEqual([]);
  for (const each of [url, adminUrl, backendUrl]) {
    const { hostname, port } = new URL(each);
    await expect(once(connect(Number(port), hostname), "connect")).rejects.toMatchObject({ code: "ECONNREFUSED" });
  }
  expect(output.err).toBe("");
}

test("alone, it answers as it says, with one token for both versions: five records and six fields, 401, 429 for the 101st, and what is left", async () => {
  const demo = await startDemo("--quiet");
  const { url } = demo;
  expect(url).toBe(`http://127.0.0.1:${await portOf(demo, "traffic")}`);
  expect(demo.output.out).not.toContain("127.0.1.");
  const headers = { authorization: "Bearer x" };
  const first = await fetch(`${url}/v2/transactions?limit=5`, { headers });
  expect(first.status).toBe(200);
  expect(((await first.json()) as { transactions: unknown[] }).transactions).toHaveLength(5);
  for (const name of ["Limit", "Remaining", "Reset"]) {
    for (const prefix of ["RateLimit", "X-RateLimit"]) expect(first.headers.get(`${prefix}-${name}`)).toMatch(/^\d+$/);
  }
  expect((await fetch(`${url}/v2/me`)).status).toBe(401);
  const statuses: number[] = [];
  for (let i = 0; i < 99; i += 1) statuses.push((await fetch(`${url}/v${1 + (i % 2)}/me`, { headers })).status);
  expect(statuses.slice(0, 98).every((status) => status === 200)).toBe(true);
  expect(statuses[98]).toBe(429);
  const { policies } = await readQuota({ url: `${url}/quota` });
  expect(policies).toMatchObject([{ name: "per-ip", state: "exhausted", used: 100, remaining: 0 }]);
  expect(await demo.api("/api/clients")).toMatchObject({ clients: [{ key: "client:127.0.0.1", used: 100 }] });
  await expectEnd(demo, "SIGINT");
});

test("its clients use it as it says, and the page shows them to who has the token of the run", async () => {
  const demo = await startDemo();
  const page = await fetch(`${demo.adminUrl}/console/`);
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining("<title>Headgate</title>")]);
  expect((await fetch(`${demo.adminUrl}/api/clients`)).status).toBe(401);
  const headers = { authorization: `Bearer ${demo.code}` };
  expect((await fetch(`${demo.adminUrl}/api/clients`, { headers })).status).toBe(401);
  const exchange = () => fetch(`${demo.adminUrl}/console/sign-in`, { method: "POST", headers });
  expect(await (await exchange()).json()).toEqual({ token: demo.token });
  expect((await exchange()).status).toBe(403);
  expect(demo.output.out).not.toContain(`"${demo.code}`);
  expect(await demo.api("/api/status")).toMatchObject({ caller: { name: "demo", role: "write" } });
  const clients = async (): Promise<ReadonlyMap<string, Counted>> => {
    const { clients } = (await demo.api("/api/clients")) as { clients: Counted[] };
    return new Map(clients.map((client) => [client.key, client]));
  };
  // Ten seconds of ten requests.
  const isRefused = async () => ((await clients()).get("client:127.0.1.13")?.refused?.count ?? 0) > 0;
  await eventually("the scraper is refused", isRefused, 90_000);
  const counted = await clients();
  expect([...counted.keys()].sort()).toEqual([...[11, 12, 13, 14, 15].map((last) => `client:127.0.1.${last}`)]);
  expect(counted.get("client:127.0.1.13")).toMatchObject({ used: 100, limit: 100, remaining: 0 });
  expect(counted.get("client:127.0.1.14")).toMatchObject({ limit: 600, refused: null });
  // Its burst is over, or nearly.
  expect(counted.get("client:127.0.1.12")?.used).toBeGreaterThan(30);
  expect(counted.get("client:127.0.1.15")?.used).toBeGreaterThan(10);
  expect(counted.get("client:127.0.1.11")).toMatchObject({ limit: 100, refused: null });
  await expectEnd(demo, "SIGINT");
});

test.each(["SIGTERM", "SIGHUP"] as const)("%s ends it as well, with its clients", async (signal) => {
  const demo = await startDemo();
  await eventually("somebody was counted", async () => {
    const { clients } = (await demo.api("/api/clients")) as { clients: Counted[] };
    return clients.length > 0;
  });
  await expectEnd(demo, signal);
});

interface Counted {
  readonly key: string;
  readonly used: number;
  readonly refused: { readonly count: number } | null;
}
