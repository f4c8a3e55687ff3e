// The files behind upstream.tls are judged before anything is opened: each mistake by its key, all of them at once, and
// `headgate check` says when nobody looks at certificates.
import { existsSync } from "node:fs";
import { afterAll, expect, test } from "vitest";
import { run } from "../../src/commands/check.ts";
import { filePath } from "../../src/config/leaves.ts";
import { loadSettings } from "../../src/config/load.ts";
import { parsePluginOptions } from "../../src/fastify/plugin-options.ts";
import { testIo } from "../commands/test-io.ts";
import { Authority } from "../support/certificates.ts";

const authority = new Authority(afterAll);
const [one, other] = [authority.issue(), authority.issue()];

async function check(tls: Record<string, string>): Promise<{ code: number; err: string }> {
  const io = testIo({ cwd: "/" });
  const set = (key: string, text: string) =>
    ({ path: key.split("."), text, at: { kind: "command line", option: "--set" } }) as const;
  const overrides = [
    set("upstream.url", "https://api.example.com"),
    ...Object.entries(tls).map(([key, text]) => set(`upstream.tls.${key}`, text)),
  ];
  const code = await run({ file: undefined, overrides }, io);
  return { code, err: io.errText().replaceAll(/ \S*\/(?=\S+\.pem)/g, " ") };
}

test("files that belong together are accepted without a word", async () => {
  expect(await check({ ca: authority.certFile, cert: one.certFile, key: one.keyFile })).toEqual({ code: 0, err: "" });
});

test("every file that cannot be used is told by its key", async () => {
  const { code, err } = await check({ ca: one.keyFile, cert: "/nowhere.pem", key: one.certFile });
  expect(code).toBe(78);
  expect(err.trim().split("\n")).toEqual([
    "command line --set: upstream.tls.ca: issued-1.key.pem: found no certificate, expected one or more in PEM",
    "command line --set: upstream.tls.cert: nowhere.pem: cannot be read: no such file",
    "command line --set: upstream.tls.key: issued-1.cert.pem: found no private key, expected one in PEM, without a passphrase",
  ]);
});

test("a file whose name is system is written ./system; the first of the system's files that exists is system", async () => {
  expect(await check({ ca: "./system" })).toMatchObject({
    code: 78,
    err: expect.stringContaining("upstream.tls.ca: system: cannot be read: no such file"),
  });
  const leaf = filePath("", ["/nowhere.pem", authority.certFile, "/"]);
  expect(["system", "./system", null].map((value) => leaf.parse(value))).toEqual([
    authority.certFile,
    "./system",
    null,
  ]);
  const without = filePath("", ["/nowhere.pem", "/neither.pem"]);
  expect([without.parse("system"), without.hint?.("system")]).toEqual([
    undefined,
    "the path of a file, since there is none of /nowhere.pem or /neither.pem",
  ]);
  expect(filePath("").parse("system")).toBe("system");
});

test.skipIf(!existsSync("/etc/ssl/certs/ca-certificates.crt"))("upstream, store and plugin know system", () => {
  const file = "/etc/ssl/certs/ca-certificates.crt";
  const redis = "redis: { url: 'rediss://a', tls: { ca: system } }";
  const yaml = `upstream: { url: https://a, tls: { ca: system } }\ncounters: { store: redis, ${redis} }\n`;
  const loaded = loadSettings({ file: "-", input: Buffer.from(yaml), env: {}, cwd: "/", overrides: [] });
  const { upstream, counters } = loaded.ok ? loaded.settings : {};
  expect([upstream?.tls.ca, counters?.redis?.connection.tls?.caFile]).toEqual([file, file]);
  expect(loaded.files.path("upstream.tls.ca")).toBe(file);
  expect(parsePluginOptions({ upstream: { url: "https://a", tls: { ca: "system" } } }).upstream?.tls.ca).toBe(file);
});

test("a key that belongs to another certificate is told", async () => {
  expect(await check({ cert: one.certFile, key: other.keyFile })).toEqual({
    code: 78,
    err: "command line --set: upstream.tls.key: issued-2.key.pem: found the key of another certificate, expected the one that belongs to upstream.tls.cert\n",
  });
});

test("a certificate that nobody looks at is allowed, and said so", async () => {
  expect(await check({ insecureSkipVerify: "true" })).toEqual({
    code: 0,
    err: "warning: upstream.tls.insecureSkipVerify is true: anyone on the network path can impersonate the upstream\n",
  });
});
