// Clients of HTTP/2 that others wrote, on the gRPC port of a whole gateway: nothing lost, nothing answered wrong, nothing left.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { call, callRaw, frame, openSession } from "./client.ts";
import { check, healthCheck } from "./protocol.ts";
import { checkRequest } from "./requests.ts";
import { stageGrpc } from "./stage.ts";

const cleanup = useCleanup();
const { HEADGATE_REQUIRE } = process.env;
const isMissing = (program: string): boolean =>
  spawnSync(program, ["--version"]).error !== undefined && HEADGATE_REQUIRE !== "all";

async function output(program: string, args: readonly string[]): Promise<string> {
  const child = spawn(program, args);
  cleanup(() => child.kill());
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (part) => (text += String(part)));
  await once(child, "close");
  return text;
}

/** A file with the message of a call. */
function messageFile(message: Buffer): string {
  const folder = scratchFolder(cleanup);
  writeFileSync(join(folder, "message"), frame(message));
  return join(folder, "message");
}

const policies = [slidingPolicy({ limit: 300, windowMs: 600_000 })];
const grpcFields = ["content-type: application/grpc", "te: trailers"].flatMap((field) => ["-H", field]);

test("@grpc/grpc-js: 400 calls at once, 300 of which are admitted", async () => {
  const { client } = await stageGrpc(cleanup, { policies });
  type Response = { readonly status: { readonly code: number } };
  const replies = await Promise.all(Array.from({ length: 400 }, () => call<Response>(client, check, checkRequest())));
  expect(replies.every(({ status }) => status === "OK")).toBe(true);
  const codes = replies.map(({ message }) => message?.status.code);
  expect([codes.filter((one) => one === 0).length, codes.filter((one) => one === 8).length]).toEqual([300, 100]);
});

test("@grpc/grpc-js: metadata of 10 KB, and a deadline", async () => {
  const { client } = await stageGrpc(cleanup);
  const metadata = { "x-large": "m".repeat(10_000) };
  const replies = await Promise.all(
    Array.from({ length: 50 }, () => call(client, check, checkRequest(), { metadata })),
  );
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set(["OK"]));
});

test("node:http2: calls with any windows, pieces and ends", async () => {
  const { port } = await stageGrpc(cleanup);
  const session = await openSession(cleanup, port);
  session.settings({ initialWindowSize: 3, headerTableSize: 0 });
  const body = check.requestSerialize(checkRequest());
  const bytes = frame(body);
  for (let size = 5; size < bytes.length; size += 20) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
      bytes.subarray(i * size, (i + 1) * size),
    );
    const { grpcStatus } = await callRaw(session, check.path, pieces);
    expect([size, grpcStatus]).toEqual([size, "0"]);
  }
});

test.skipIf(isMissing("h2load"))(
  "h2load: 5,000 calls, 50 streams on each of 4 connections (needs nghttp2-client)",
  async () => {
    const { port, client } = await stageGrpc(cleanup);
    const file = messageFile(Buffer.alloc(0));
    const url = `http://127.0.0.1:${port}${healthCheck.path}`;
    const text = await output("h2load", ["-n5000", "-c4", "-m50", "-d", file, ...grpcFields, url]);
    expect(text).toMatch(/5000 total, 5000 started, 5000 done, 5000 succeeded, 0 failed, 0 errored, 0 timeout/);
    expect(text).toMatch(/status codes: 5000 2xx/);
    expect((await call(client, healthCheck, {})).status).toBe("OK");
  },
);

test.skipIf(isMissing("nghttp"))(
  "nghttp: calls with padding and a window of one byte, and with too large a head in CONTINUATION (needs nghttp2-client)",
  async () => {
    // The head of a check may be twice as large; nghttp sends 18 KiB.
    const { port } = await stageGrpc(cleanup, { maxHeaderBytes: 8 * 1024, maxTargetBytes: 4 * 1024 });
    const url = `http://127.0.0.1:${port}${healthCheck.path}`;
    const file = messageFile(Buffer.alloc(0));
    const ask = (...more: string[]): Promise<string> =>
      output("nghttp", [...more, "-m", "5", "-v", "-n", "-d", file, ...grpcFields, url]);
    const answered = await ask("-b", "200", "-w", "1");
    expect(answered.match(/grpc-status: 0/g)?.length, answered).toBe(5);
    expect(answered).not.toMatch(/\[ERROR\]|RST_STREAM/);
    const refused = await ask("--continuation", "-b", "200");
    expect(refused.match(/:status: 431/g)?.length, refused).toBe(5);
    expect(refused).not.toMatch(/\[ERROR\]|PROTOCOL_ERROR/);
  },
);

test.skipIf(isMissing("curl"))("curl: a call with prior knowledge (needs curl)", async () => {
  const { port } = await stageGrpc(cleanup);
  const url = `http://127.0.0.1:${port}${healthCheck.path}`;
  const file = messageFile(Buffer.alloc(0));
  const text = await output("curl", [
    "-sv",
    "--http2-prior-knowledge",
    "--data-binary",
    `@${file}`,
    ...grpcFields,
    url,
  ]);
  expect(text).toMatch(/HTTP\/2 200/);
  expect(text).toMatch(/grpc-status: 0/);
});
