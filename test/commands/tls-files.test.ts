// The files of `listen.tls` before a port is opened: what is wrong with them is told in one line each, and the paths are
// read from where they were written.
import { writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../../src/commands/check.ts";
import { loadSettings } from "../../src/config/load.ts";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";
import { testIo } from "./test-io.ts";

const cleanup = useCleanup();

/** Without the place that each line begins with. */
async function check(tls: Record<string, string>, cwd: string) {
  const folder = scratchFolder(cleanup);
  const file = join(folder, "headgate.yaml");
  writeFileSync(file, `listen:\n  tls: ${JSON.stringify(tls)}\n`);
  const io = testIo({ cwd });
  const code = await run({ file, overrides: [] }, io);
  return { code, err: io.errText().replaceAll(new RegExp(`^${file}:2:\\d+: `, "gm"), "") };
}

test("good files pass; what is wrong or away is told with its key and its file", async () => {
  const authority = new Authority(cleanup);
  const { certFile, keyFile } = authority.issue({ validDays: [-1, 30] });
  const cwd = dirname(certFile);
  const name = basename(certFile);
  expect(await check({ cert: certFile, key: keyFile, clientCa: authority.certFile }, cwd)).toEqual({
    code: 0,
    err: "",
  });
  const expected = "expected the private key of that certificate in PEM, without a passphrase";
  expect(await check({ cert: certFile, key: certFile }, cwd)).toEqual({
    code: 78,
    err: `listen.tls.key: ${name}: found no private key, ${expected}\n`,
  });
  expect(await check({ cert: `${certFile}.not`, key: keyFile, clientCa: cwd }, cwd)).toEqual({
    code: 78,
    err:
      `listen.tls.cert: ${name}.not: cannot be read: no such file\n` +
      `listen.tls.clientCa: ${cwd}: cannot be read: it is a folder\n`,
  });
});

test("a certificate that has expired is a warning, and no mistake", async () => {
  const { certFile, keyFile } = new Authority(cleanup).issue({ validDays: [-3, -1] });
  expect(await check({ cert: certFile, key: keyFile }, dirname(certFile))).toEqual({
    code: 0,
    err: `listen.tls.cert: ${basename(certFile)}: warning: the certificate has expired\n`,
  });
});

test("a path in the file starts from its folder, one on the command line from where the command runs", () => {
  const folder = scratchFolder(cleanup);
  const file = join(folder, "headgate.yaml");
  writeFileSync(file, "listen: { tls: { cert: a/cert.pem, key: key.pem } }");
  const at = { kind: "command line", option: "--set" } as const;
  const overrides = [{ path: ["listen", "tls", "clientCa"], text: "ca.pem", at }];
  const loaded = loadSettings({ file, env: { HEADGATE_LISTEN_TLS_KEY: "b/key.pem" }, cwd: "/place", overrides });
  expect(loaded.ok && loaded.settings.listen.tls).toEqual({
    cert: join(folder, "a/cert.pem"),
    key: "/place/b/key.pem",
    clientCa: "/place/ca.pem",
    http2: true,
    minVersion: "TLSv1.2",
    ciphers: [],
  });
});
