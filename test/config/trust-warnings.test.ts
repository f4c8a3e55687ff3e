// Trust that lets anyone choose who is charged is told by `check`, `check --diff`, the start and a reload, in the same
// words; what is ordinary is not.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fastify } from "fastify";
import { afterAll, expect, test } from "vitest";
import { run, runDiff } from "../../src/commands/check.ts";
import { headgate } from "../../src/fastify/index.ts";
import { testIo } from "../commands/test-io.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startTestGateway, testSettings } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch.ts";
import { deadUrl } from "../support/unavailable.ts";

const cleanup = useCleanup();
const folder = scratchFolder(afterAll);

/** What `headgate check` and `headgate check --diff` from the defaults print on standard error: the same. */
async function warnings(yaml: string): Promise<string[]> {
  writeFileSync(join(folder, "old.yaml"), "{}");
  writeFileSync(join(folder, "new.yaml"), yaml === "" ? "{}" : yaml);
  const [checked, compared] = [testIo({ cwd: folder }), testIo({ cwd: folder })];
  expect(await run({ file: "new.yaml", overrides: [] }, checked)).toBe(0);
  expect(await runDiff({ files: ["old.yaml", "new.yaml"], overrides: [] }, compared)).toBe(0);
  expect(compared.errText()).toBe(checked.errText());
  return checked.errText().split("\n").slice(0, -1);
}

const proxies = (share: string): string =>
  `clientAddress.trustedProxies contains ${share}: clients there can choose who is charged; list only the addresses of your proxies`;
const callers = (share: string): string =>
  `extAuth.trustedCallers contains ${share}: anyone there can spend the quota of any client; list only the addresses of your ingresses`;
const port = (host: string): string =>
  `listen.proxyProtocol is true: whoever reaches port 8080 of ${host} can choose who is charged; let only the load balancer reach it, or listen on a private address`;

const asPorts = (...networks: string[]): string =>
  `extAuth: { http: { enabled: true }, trustedCallers: ${JSON.stringify(networks)} }`;

test.each<[share: string, networks: string[]]>([
  ["every IPv4 address", ["0.0.0.0/0"]],
  ["every IPv4 address", ["::/0"]],
  ["every IPv4 address", ["::ffff:0:0/96"]],
  ["every IPv4 address", ["0.0.0.0/1", "128.0.0.0/1"]],
  ["50 % of all IPv4 addresses", ["10.0.0.0/8", "0.0.0.0/1"]],
  ["87 % of all IPv4 addresses", Array.from({ length: 224 }, (_, i) => `${i}.0.0.0/8`)],
  ["every global IPv6 address", ["2000::/3"]],
  ["75 % of all global IPv6 addresses", ["2000::/4", "3000::/5"]],
  ["1 % of all IPv4 addresses", ["4.0.0.0/6", "8.0.0.1"]],
])("a list with %s is warned of as proxies and as callers", async (share, networks) => {
  const trusted = `clientAddress: { trustedProxies: ${JSON.stringify(networks)} }`;
  expect(await warnings(trusted)).toEqual([`warning: ${proxies(share)}`]);
  expect(await warnings(asPorts(...networks))).toEqual([`warning: ${callers(share)}`]);
});

test("a 64th of the internet is not warned of", async () => {
  expect(await warnings("clientAddress: { trustedProxies: [4.0.0.0/6] }")).toEqual([]);
  expect(await warnings(asPorts("4.0.0.0/6"))).toEqual([]);
});

test("private networks, and those of a content delivery network, are ordinary", async () => {
  const networks = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "fc00::/7"];
  const all = [...networks, "104.16.0.0/13", "2400:cb00::/32"];
  expect(await warnings(`clientAddress: { trustedProxies: ${JSON.stringify(all)} }`)).toEqual([]);
  expect(await warnings(asPorts(...all))).toEqual([]);
});

test("wide callers over gRPC alone are warned of", async () => {
  const extAuth = "extAuth: { grpc: { enabled: true }, trustedCallers: [0.0.0.0/0] }";
  expect(await warnings(extAuth)).toEqual([`warning: ${callers("every IPv4 address")}`]);
});

test("wide callers without an ext-auth listener are not warned of", async () => {
  expect(await warnings("extAuth: { trustedCallers: [0.0.0.0/0] }")).toEqual([]);
});

test.each(["0.0.0.0", "::", "203.0.113.1", "gateway.example"])("PROXY headers on %s are warned of", async (host) => {
  expect(await warnings(`listen: { host: "${host}", proxyProtocol: true }`)).toEqual([`warning: ${port(host)}`]);
  expect(await warnings(`listen: { host: "${host}" }`)).toEqual([]);
});

test.each(["127.0.0.1", "::1", "localhost", "10.1.2.3", "192.168.0.1", "fd00::1"])(
  "PROXY headers on %s, which the internet does not reach, are ordinary",
  async (host) => {
    expect(await warnings(`listen: { host: "${host}", proxyProtocol: true }`)).toEqual([]);
  },
);

test("IPv6 clients that are less than a /64", async () => {
  const told = (prefix: number): string =>
    `warning: clientAddress.ipv6Prefix is ${prefix}: a client has a whole /64 as a rule, so it can take a new quota for each address in it; set it to 64 or less`;
  for (const prefix of [65, 128]) {
    expect(await warnings(`clientAddress: { ipv6Prefix: ${prefix} }`)).toEqual([told(prefix)]);
  }
  for (const prefix of [32, 64]) expect(await warnings(`clientAddress: { ipv6Prefix: ${prefix} }`)).toEqual([]);
});

test("a forwarding header that nobody is trusted to write", async () => {
  expect(await warnings("clientAddress: { header: forwarded }")).toEqual([
    "warning: clientAddress.header is forwarded: no header is read, because nobody is trusted to write it; list your proxies in trustedProxies",
  ]);
  expect(await warnings("clientAddress: { header: forwarded, trustedProxies: [10.0.0.1] }")).toEqual([]);
});

const wide = { trustedProxies: ["0.0.0.0/1", "128.0.0.0/1"], header: "x-forwarded-for", ipv6Prefix: 64 } as const;
const isWarning = ({ msg }: Record<string, unknown>): boolean => msg === "configuration warning";

test("the start logs it, and so does a reload, once", async () => {
  const start = await startTestGateway({ upstreamUrl: deadUrl, overrides: { clientAddress: wide } });
  await start.close();
  const line = { level: "warn", detail: proxies("every IPv4 address") };
  expect(start.logLines.filter(isWarning)).toMatchObject([line]);

  const { reload, logLines, close } = await startTestGateway({ upstreamUrl: deadUrl });
  cleanup(close);
  expect(logLines.filter(isWarning)).toEqual([]);
  for (const maxBodyBytes of [1, 2]) {
    await reload(testSettings(deadUrl, { clientAddress: wide, maxBodyBytes }));
    expect(logLines.filter(isWarning)).toMatchObject([line]);
  }
});

test("the Fastify plugin logs it", async () => {
  const lines: string[] = [];
  const app = cleanup(fastify({ logger: { stream: { write: (line: string) => void lines.push(line) } } }));
  await app.register(headgate, { clientAddress: { trustedProxies: ["::/0"] } });
  await app.ready();
  expect(lines.map((line) => JSON.parse(line)).filter(isWarning)).toMatchObject([
    { detail: proxies("every IPv4 address") },
  ]);
});

test("a readiness path under a route is named: nothing there is limited or forwarded", async () => {
  const what = "the gateway answers it without a token and without a limit, and forwards none of its requests";
  const routes = "routes: [/v1/, /v2/, /api/]\n";
  expect(await warnings(`${routes}readiness: { path: /api/up }`)).toEqual([
    `warning: readiness.path /api/up is under the route /api/: ${what}`,
  ]);
  expect(await warnings(`${routes}basePath: /finance\nreadiness: { path: /api/up }`)).toEqual([]);
  expect(await warnings("readiness: { path: / }")).toEqual([]);
});
