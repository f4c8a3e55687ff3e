// Which versions, suites and groups both listeners with TLS agree on, by the openssl command, with an RSA certificate.
import { execFile, execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { useSharedCleanup } from "../support/cleanup.ts";
import type { TestGateway } from "../support/gateway.ts";
import { startFromFile } from "../support/gateway-from-file.ts";
import { scratchFolder } from "../support/scratch.ts";

const cleanup = useSharedCleanup();
let gateway: TestGateway;
let folder = "";

/** `listen`, `admin`: further keys of their TLS, as in YAML. */
function write(listen = "", admin = ""): string {
  const file = join(folder, "headgate.yaml");
  const tls = (more: string): string => `tls: { cert: cert.pem, key: key.pem, ${more} }`;
  writeFileSync(file, `workers: 2\nlisten: { ${tls(listen)} }\nadmin: { port: 0, ${tls(admin)} }\n`);
  return file;
}

beforeAll(async () => {
  folder = scratchFolder(cleanup);
  const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const key = ["-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem"];
  execFileSync("openssl", ["req", "-x509", ...key, "-out", "cert.pem", "-days", "2", ...names], {
    ...{ cwd: folder, stdio: "pipe" },
  });
  gateway = await startFromFile(cleanup, "http://127.0.0.1:9", write());
});

/** What openssl prints; undefined if it fails. */
function connect(port: number, ...options: string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    const args = ["s_client", "-connect", `127.0.0.1:${port}`, "-servername", "localhost", ...options];
    const child = execFile("openssl", args, { timeout: 30_000 }, (error, out) => {
      resolve(error === null ? out : undefined);
    });
    child.stdin?.end();
  });
}

/** The suite, or `refused`. */
async function handshake(port: number, ...options: string[]): Promise<string> {
  const [, suite] = /^(?:New|Reused), .*, Cipher is ([^(]\S+)/m.exec((await connect(port, ...options)) ?? "") ?? [];
  return suite ?? "refused";
}

const ofTls12 = (port: number, suite: string): Promise<string> =>
  handshake(port, "-tls1_2", "-cipher", `${suite}:@SECLEVEL=0`);

const withoutForwardSecrecy = ["AES128-SHA", "AES256-SHA256", "AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-CCM"];
const others = ["ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA384", "DHE-RSA-AES128-GCM-SHA256"];
const good = ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"];

test("both listeners agree on ECDHE with AEAD alone in TLS 1.2, on TLS 1.3, and on nothing older", async () => {
  for (const port of [gateway.traffic.port, gateway.admin.port]) {
    const refused = [...withoutForwardSecrecy, ...others].map((suite) => ofTls12(port, suite));
    expect(await Promise.all(refused)).toEqual(refused.map(() => "refused"));
    const agreed = await Promise.all(good.map((suite) => ofTls12(port, suite)));
    expect(agreed).toEqual(good);
    const old = ["-tls1", "-tls1_1"].map((version) => handshake(port, version, "-cipher", "ALL:@SECLEVEL=0"));
    expect(await Promise.all(old)).toEqual(["refused", "refused"]);
    expect(await handshake(port, "-tls1_3")).toBe("TLS_AES_256_GCM_SHA384");
    const groups = ["X25519", "P-256", "P-384", "P-521", "ffdhe2048"];
    const byGroup = await Promise.all(groups.map((group) => handshake(port, "-tls1_3", "-groups", group)));
    expect(byGroup.map((agreed) => agreed !== "refused")).toEqual([true, true, true, false, false]);
  }
});

test("nothing is compressed, and a ticket is good for five minutes", async () => {
  for (const port of [gateway.traffic.port, gateway.admin.port]) {
    const printed = (await connect(port, "-tls1_2")) ?? "";
    expect(printed).toContain("Compression: NONE");
    expect(printed).toContain("ticket lifetime hint: 300 (seconds)");
  }
});

test("a client that prefers ChaCha20 gets it, else the order is the gateway's", async () => {
  const { port } = gateway.traffic;
  const [aes128, aes256, chacha] = good;
  expect(await ofTls12(port, `${chacha}:${aes128}`)).toBe(chacha);
  expect(await ofTls12(port, `${aes256}:${aes128}`)).toBe(aes128);
});

test("each listener has its own keys, and a reload changes them", async () => {
  const { traffic, admin } = gateway;
  const session = join(folder, "session.pem");
  write("http2: false, ciphers: [AES128-SHA]", "minVersion: TLSv1.3");
  expect(await gateway.reloadFromSource("signal")).toMatchObject({ ok: true });
  expect(await ofTls12(traffic.port, "AES128-SHA")).toBe("AES128-SHA");
  expect(await ofTls12(traffic.port, "ECDHE-RSA-AES128-GCM-SHA256")).toBe("refused");
  expect(await handshake(traffic.port, "-tls1_3")).toBe("TLS_AES_256_GCM_SHA384");
  expect(await ofTls12(admin.port, "ECDHE-RSA-AES128-GCM-SHA256")).toBe("refused");
  expect(await handshake(admin.port, "-tls1_3")).toBe("TLS_AES_256_GCM_SHA384");
  const old = ["-tls1_2", "-cipher", "ALL:@SECLEVEL=0"];
  expect(await handshake(traffic.port, ...old, "-sess_out", session)).toBe("AES128-SHA");

  write("ciphers: [TLS_AES_128_GCM_SHA256]");
  expect(await gateway.reloadFromSource("signal")).toMatchObject({ ok: true });
  expect(await handshake(traffic.port, ...old)).toBe("refused");
  expect(await handshake(traffic.port, "-tls1_3")).toBe("TLS_AES_128_GCM_SHA256");
  expect(await ofTls12(admin.port, "ECDHE-RSA-AES128-GCM-SHA256")).toBe("ECDHE-RSA-AES128-GCM-SHA256");

  write();
  expect(await gateway.reloadFromSource("signal")).toMatchObject({ ok: true });
  // A ticket from before is not a way to the old suite.
  expect(await handshake(traffic.port, ...old, "-sess_in", session)).toMatch(/^ECDHE-RSA-/);
});
