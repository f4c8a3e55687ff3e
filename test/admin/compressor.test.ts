// Scrapes in gzip: who gets it, and that only one text is compressed at a time.
import { type IncomingHttpHeaders, request } from "node:http";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { Compressor } from "../../src/admin/compressor.ts";
import { wantsGzip } from "../../src/admin/request-fields.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startTestGateway } from "../support/gateway.ts";

const cleanup = useCleanup();

test.each([
  ["gzip", true],
  ["x-gzip", true],
  ["GZIP;Q=0.5", true],
  ["gzip, deflate, br, zstd", true],
  ["deflate, gzip;q=1.0, *;q=0.5", true],
  ["identity;q=0.5, gzip", true],
  ["identity, gzip", true],
  ["*", true],
  [undefined, false],
  ["", false],
  ["identity", false],
  ["deflate, br", false],
  ["gzip;q=0", false],
  ["gzip;q=0.000, *", false],
  ["gzip;q=0.5, identity", false],
  ["*;q=0", false],
  ["gzip;q=2", false],
  ["gzipped, xgzip", false],
  [`${"br,".repeat(200)}gzip`, false],
])("Accept-Encoding %j asks for gzip: %s", (field, expected) => {
  expect(wantsGzip(field)).toBe(expected);
});

test("another text is not compressed meanwhile, and those who share a text share its bytes", async () => {
  const compressor = new Compressor();
  const [text, other] = ["a 1\n".repeat(1_000), "b 1\n".repeat(1_000)];
  const all = await Promise.all([compressor.gzip(text), compressor.gzip(other), compressor.gzip(text)]);
  expect(gunzipSync(all[0] as Buffer).toString()).toBe(text);
  expect(all[1]).toBe(other);
  expect(all[2]).toBe(all[0]);
  expect(gunzipSync((await compressor.gzip(other)) as Buffer).toString()).toBe(other);
});

test("the bytes are kept for a second, and no longer", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const compressor = new Compressor();
  const bytes = await compressor.gzip("a 1\n");
  vi.advanceTimersByTime(999);
  expect(await compressor.gzip("a 1\n")).toBe(bytes);
  vi.advanceTimersByTime(1);
  expect(await compressor.gzip("a 1\n")).not.toBe(bytes);
});

test("a scrape in gzip has the same text in a fifth of the bytes, in both formats, and HEAD the same fields", async () => {
  const gateway = cleanup(await startTestGateway({ upstreamUrl: "http://127.0.0.1:1" }));
  for (const accept of ["text/plain", "application/openmetrics-text;version=1.0.0"]) {
    const scrape = (encoding: string, method = "GET") =>
      answerOf(`${gateway.adminUrl}/metrics`, method, { accept, "accept-encoding": encoding });
    const plain = await scrape("identity");
    const packed = await scrape("gzip");
    expect(plain.headers["content-encoding"]).toBeUndefined();
    expect(packed.headers).toMatchObject({
      "content-encoding": "gzip",
      "content-type": plain.headers["content-type"],
      vary: "accept, accept-encoding",
      "content-length": `${packed.bytes.length}`,
    });
    const names = (bytes: Buffer) => bytes.toString().replace(/ \S+$/gm, "");
    expect(names(gunzipSync(packed.bytes))).toBe(names(plain.bytes));
    expect(packed.bytes.length * 5).toBeLessThan(plain.bytes.length);
    expect((await scrape("gzip", "HEAD")).headers["content-encoding"]).toBe("gzip");
  }
});

/** The bytes as they are sent: fetch would decode them. */
function answerOf(url: string, method: string, headers: Record<string, string>) {
  return new Promise<{ headers: IncomingHttpHeaders; bytes: Buffer }>((resolve, reject) => {
    request(url, { method, headers, agent: false }, (response) => {
      buffer(response).then((bytes) => resolve({ headers: response.headers, bytes }), reject);
    })
      .on("error", reject)
      .end();
  });
}
