// The keys for versions and suites of TLS: what is refused, and with which words.
import { afterAll, expect, test } from "vitest";
import { run } from "../../src/commands/check.ts";
import { openSslList } from "../../src/config/tls-suites.ts";
import { testIo } from "../commands/test-io.ts";
import { Authority } from "../support/certificates.ts";

// With an EC key.
const { certFile, keyFile } = new Authority(afterAll).issue({ validDays: [-1, 30] });

async function check(section: "listen" | "admin", tls: Record<string, string>) {
  const io = testIo({ cwd: "/" });
  const overrides = Object.entries({ cert: certFile, key: keyFile, ...tls }).map(([key, text]) => {
    return { path: [section, "tls", key], text, at: { kind: "command line", option: "--set" } as const };
  });
  const code = await run({ file: undefined, overrides }, io);
  return { code, err: io.errText(), out: io.outText() };
}

test("the keys are shown with their values", async () => {
  const { code, err, out } = await check("admin", { minVersion: "TLSv1.3", ciphers: "[ECDHE-ECDSA-AES128-SHA]" });
  expect([code, err]).toEqual([0, ""]);
  expect(out).toContain("minVersion: TLSv1.3, ciphers: [ ECDHE-ECDSA-AES128-SHA ]");
  expect(out).toContain("minVersion: TLSv1.2, ciphers: []");
});

test("a suite that HTTP/2 forbids is an error where it is on", async () => {
  const suites = "[ECDHE-ECDSA-AES128-GCM-SHA256, ECDHE-ECDSA-AES128-SHA]";
  expect(await check("listen", { ciphers: suites })).toMatchObject({
    code: 78,
    err: 'command line --set: listen.tls.ciphers.1: found "ECDHE-ECDSA-AES128-SHA", expected a suite with ECDHE and AEAD, since listen.tls.http2 is true (RFC 9113, appendix A); remove it, or set that to false\n',
  });
  expect(await check("listen", { ciphers: suites, http2: "false" })).toMatchObject({ code: 0, err: "" });
  expect(await check("admin", { ciphers: suites })).toMatchObject({ code: 0, err: "" });
});

test.each([
  ["RC4-SHA", 'ciphers.0: found "RC4-SHA", expected TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256, '],
  ["ECDHE-ECDSA-AES128-GCM-SHA256, ecdhe-ecdsa-aes128-gcm-sha256", 'ciphers.1: found "ecdhe-ecdsa'],
  ["AES256-SHA, AES256-SHA", 'ciphers.1: found "AES256-SHA", expected no second "AES256-SHA"; remove it'],
])("names that are none are told: %s", async (names, message) => {
  for (const section of ["listen", "admin"] as const) {
    const { code, err } = await check(section, {
      ciphers: `[${names}]`,
      ...(section === "listen" && { http2: "false" }),
    });
    expect([code, err]).toEqual([78, expect.stringContaining(`${section}.tls.${message}`)]);
  }
});

test("a certificate for which the list has no suite of TLS 1.2 is an error", async () => {
  const { code, err } = await check("admin", { ciphers: "[ECDHE-RSA-AES128-GCM-SHA256]" });
  expect(code).toBe(78);
  expect(err).toMatch(
    /admin\.tls\.cert: .*: found a certificate without an RSA key, and admin\.tls\.ciphers has no suite of TLS 1\.2 for it, expected/,
  );
  expect(await check("admin", { ciphers: "[TLS_AES_128_GCM_SHA256]" })).toMatchObject({ code: 0, err: "" });
});

test("a version that is none is told", async () => {
  expect((await check("listen", { minVersion: "TLSv1.1" })).err).toContain(
    'listen.tls.minVersion: found "TLSv1.1", expected TLSv1.2 or TLSv1.3',
  );
});

test("a list without names of TLS 1.3 leaves those of TLS 1.3 in place, one of TLS 1.3 alone is the whole list", () => {
  const ofTls13 = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
  expect(openSslList(["AES128-SHA"])).toBe(`${ofTls13}:AES128-SHA`);
  expect(openSslList(["TLS_AES_128_GCM_SHA256"])).toBe("TLS_AES_128_GCM_SHA256");
  expect(openSslList()).toMatch(
    new RegExp(`^${ofTls13}(:ECDHE-(RSA|ECDSA)-(AES(128|256)-GCM-SHA\\d+|CHACHA20-POLY1305)){6}$`),
  );
});
