// The bounds of heads in an app: that of the server, which `serverOptions` sets, that of a target, and that of the upstream.
import { expect, test } from "vitest";
import { serverOptions } from "../../src/fastify/index.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request } from "../support/stage.ts";
import { startRawUpstream } from "../support/upstream.ts";
import { accessLines, startTestApp } from "./app.ts";

const cleanup = useCleanup();
const long = (bytes: number): string => "a".repeat(bytes);

test("serverOptions({ maxHeaderBytes }) moves the server's bound, and what is refused names its own", async () => {
  const app = await startTestApp(cleanup, {
    server: serverOptions({ maxHeaderBytes: 32_768 }),
    options: { maxTargetBytes: "20KiB" },
    routes: (app) => app.get("/v2/*", async () => "ok"),
  });
  const ask = async (target: string, fields = ""): Promise<number> => {
    return (await app.connect().ask(request(target, { fields }))).status;
  };
  expect(await ask(`/v2/${long(20_000)}`, `X: ${long(10_000)}\r\n`)).toBe(200);
  expect(await ask(`/v2/${long(20_480)}`)).toBe(414);
  expect(await ask(`/v2/${long(33_000)}`)).toBe(414);
  expect(await ask("/v2/x", `X: ${long(33_000)}\r\n`)).toBe(431);
  expect(await ask(`/v2/${long(20_000)}`, `X: ${long(20_000)}\r\n`)).toBe(431);
  expect(await ask("/v2/x", "X: y\r\n".repeat(201))).toBe(431);
  expect(await ask("/v2/x", "X : y\r\n")).toBe(400);
  await eventually("all are logged", () => accessLines(app).length === 7);
  expect(accessLines(app).map(({ status, detail }) => `${status} ${detail ?? "-"}`)).toEqual([
    "200 -",
    "414 maxTargetBytes",
    "414 maxTargetBytes",
    "431 maxHeaderBytes",
    "431 maxHeaderBytes",
    "431 200 headers",
    "400 -",
  ]);
});

test.each([
  [undefined, 502],
  ["64KiB", 200],
])("ten cookies of 3 KB of the upstream, with upstream.maxHeaderBytes: %s, are %d", async (maxHeaderBytes, status) => {
  const cookies = `Set-Cookie: s=${long(3_000)}\r\n`.repeat(10);
  const answer = `HTTP/1.1 200 OK\r\n${cookies}Content-Length: 2\r\n\r\nok`;
  const upstream = cleanup(await startRawUpstream((socket) => void socket.write(answer)));
  const bound = maxHeaderBytes === undefined ? {} : { maxHeaderBytes };
  const app = await startTestApp(cleanup, { options: { upstream: { url: upstream.url, ...bound } } });
  const { rawHeaders, ...read } = await app.connect().ask(request("/v2/login"));
  expect([read.status, valuesOf(rawHeaders, "set-cookie").length]).toEqual([status, status === 200 ? 10 : 0]);
  if (status === 200) return;
  await eventually("it is logged", () => app.lines.some(({ reason }) => reason === "head_too_large"));
});

test("a client that reads only when it has sent for a while reads its refusal", async () => {
  const app = await startTestApp(cleanup, {
    options: {
      policies: [{ name: "p", limit: 2, window: "1h" }],
      maxBodyBytes: 2_000_000,
    },
  });
  const announced = (fields: string): string => `POST /v2/x HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;
  const requests = [
    [401, announced("Content-Length: 1000000\r\n")],
    [413, announced("Authorization: Bearer t\r\nContent-Length: 3000000\r\n")],
    [429, announced("Authorization: Bearer t\r\nContent-Length: 1000000\r\n")],
  ] as const;
  for (const [status, head] of requests) {
    const client = app.connect().write(head);
    client.socket.pause();
    const timer = setInterval(() => client.socket.writable && client.write("x"), 10);
    cleanup(() => clearInterval(timer));
    // It has sent for a while before it reads.
    await new Promise((resolve) => setTimeout(resolve, 50));
    client.socket.resume();
    expect((await client.read()).status).toBe(status);
  }
});
