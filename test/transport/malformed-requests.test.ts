// Why a client's request is 400: the access log names the rule that it breaks, the line of its head and the name of the field,
// and `/api/requests/{id}` the rule. A value stands nowhere.
import { beforeAll, beforeEach, expect, test } from "vitest";
import { useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { Http2Client } from "../support/http2-client.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { type Stage, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";
import type { RawUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const sharedCleanup = useSharedCleanup();
const withTls = useTls();
const clock = new FakeClock();
let ca = "";
let stage: Stage<RawUpstream>;
beforeAll(async () => {
  const tls = withTls({ policies: [slidingPolicy({ limit: 10_000, windowMs: 60_000 })] });
  stage = await stageRaw(sharedCleanup, () => {}, tls.overrides, clock);
  ({ ca } = tls);
});

// At most five refusals of a client are logged in a second.
beforeEach(() => clock.advance(1_000));

const canary = "s3cret-canary";
const head = "GET /v2/x HTTP/1.1\r\nHost: a\r\n";
const post = "POST /v2/x HTTP/1.1\r\nHost: a\r\n";
const chunks = `${post}Transfer-Encoding: chunked\r\nAuthorization: Bearer t\r\n\r\n`;

type Row = readonly [name: string, bytes: string, rule: string, line: number | null, field: string | null];
const rows: readonly Row[] = [
  ["a method that is none", `G(T /v2/x HTTP/1.1\r\n\r\n`, "not a method, a target and a version", 1, null],
  ["a target with a blank", `GET /v2/x ${canary} HTTP/1.1\r\n\r\n`, "not a method, a target and a version", 1, null],
  ["a version that is none", "GET /v2/x HTTP/x\r\n\r\n", "not a method, a target and a version", 1, null],
  ["HTTP/2.0 in text", `GET /v2/x HTTP/2.0\r\nHost: a\r\n\r\n`, "a version other than HTTP/1.0 and HTTP/1.1", 1, null],
  [
    "an authority with a user",
    `GET http://${canary}@a/v2/x HTTP/1.1\r\nHost: a\r\n\r\n`,
    "a target of another form",
    1,
    null,
  ],
  ["LF behind the request line", "GET /v2/x HTTP/1.1\nHost: a\r\n\r\n", "an LF without a CR", 1, null],
  ["LF behind a field", `${head}X-A: ${canary}\nX-B: b\r\n\r\n`, "an LF without a CR", 3, "X-A"],
  ["LF behind a name", `${head}X-A\n\r\n`, "an LF without a CR", 3, null],
  ["LF for the empty line", `${head}\n`, "an LF without a CR", 3, null],
  ["a CR alone", `${head}X-A: b\r${canary}\r\n\r\n`, "a CR without an LF", 3, "X-A"],
  ["a folded line", `${head}X-A: b\r\n ${canary}\r\n\r\n`, "a folded line", 4, null],
  ["a blank before the colon", `${head}X-A : ${canary}\r\n\r\n`, "a blank in or behind a name", 3, null],
  ["no colon", `${head}${canary}\r\n\r\n`, "a line without a colon", 3, null],
  ["no name", `${head}: ${canary}\r\n\r\n`, "a name that is no token", 3, null],
  ["a name of other bytes", `${head}X-\xe4: ${canary}\r\n\r\n`, "a name that is no token", 3, null],
  ["a control character", `${head}X-A: ${canary}\0\r\n\r\n`, "a control character", 3, "X-A"],
  [
    "a length that is none",
    `${post}Content-Length: ${canary}\r\n\r\n`,
    "a second framing, or no length",
    3,
    "Content-Length",
  ],
  [
    "two lengths",
    `${post}content-length: 1\r\nX: y\r\ncontent-length: 1\r\n\r\n`,
    "a second framing, or no length",
    5,
    "content-length",
  ],
  [
    "chunks beside a length",
    `${post}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
    "a second framing, or no encoding",
    4,
    "Transfer-Encoding",
  ],
  [
    "chunks in HTTP/1.0",
    "POST /v2/x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "an encoding beside a length, or in HTTP/1.0",
    null,
    "Transfer-Encoding",
  ],
  [
    "a length of 16 digits",
    `${post}Content-Length: 1000000000000000\r\n\r\n`,
    "a second length, or one other than 1 to 15 digits",
    null,
    "Content-Length",
  ],
  ["a chunk's size", `${chunks}${canary}\r\n`, "the size of a chunk", null, null],
  ["LF behind a chunk's size", `${chunks}2\nok\r\n0\r\n\r\n`, "an LF without a CR, in a line about chunks", null, null],
  ["a chunk's end", `${chunks}2\r\nok${canary}`, "the end of a chunk", null, null],
  ["a trailer", `${chunks}0\r\n${canary}\r\n\r\n`, "a trailer", null, null],
];

async function expectLogged(id: string, rule: string, line: number | null, field: string | null): Promise<void> {
  const { gateway } = stage;
  await eventually("it is logged", () => gateway.logLines.some((each) => each["id"] === id));
  const logged = gateway.logLines.find((each) => each["id"] === id);
  expect(logged).toMatchObject({ status: 400, problem: "malformed", brokenRule: rule, line, field });
  expect(JSON.stringify(logged)).not.toContain(canary);
}

for (const pieces of ["whole", "a byte at a time"]) {
  test.each(rows)(`over HTTP/1.1, %s, ${pieces}`, async (_, bytes, rule, line, field) => {
    const client = cleanup(new RawConnection(stage.gateway.traffic.port, { tls: { ca } }));
    if (pieces === "whole") client.write(bytes);
    else for (const byte of bytes) client.write(byte);
    const { status, rawHeaders } = await client.read();
    expect(status).toBe(400);
    await expectLogged(valuesOf(rawHeaders, "X-Request-Id")[0] ?? "", rule, line, field);
  });
}

test.each<[name: string, fields: Record<string, string>, rule: string, field: string | null]>([
  ["a blank around a value", { "x-a": ` ${canary}` }, "a blank around a value, or a control character", "x-a"],
  ["a control character", { "x-a": `${canary}\x01` }, "a blank around a value, or a control character", "x-a"],
])("over HTTP/2, %s", async (_, fields, rule, field) => {
  const client = new Http2Client(stage.gateway.traffic.port, ca, cleanup);
  const { status, rawHeaders } = await client.ask({ fields });
  expect(status).toBe(400);
  await expectLogged(valuesOf(rawHeaders, "X-Request-Id")[0] ?? "", rule, null, field);
});

test("plain HTTP on the port with TLS", async () => {
  const client = cleanup(new RawConnection(stage.gateway.traffic.port));
  const [id = ""] = valuesOf((await client.ask(`${head}X-A: ${canary}\r\n\r\n`)).rawHeaders, "X-Request-Id");
  await expectLogged(id, "plain HTTP on a port with TLS", null, null);
});

test("the rule is told to whoever asks why", async () => {
  const client = cleanup(new RawConnection(stage.gateway.traffic.port, { tls: { ca } }));
  const [id = ""] = valuesOf((await client.ask(`${head}X-A: b\r\n ${canary}\r\n\r\n`)).rawHeaders, "X-Request-Id");
  expect(await stage.gateway.recent.request(id)).toMatchObject({ reason: "malformed", brokenRule: "a folded line" });
});
