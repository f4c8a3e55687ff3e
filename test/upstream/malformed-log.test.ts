// Who reads the log did not write the upstream: the line names the rule that a response breaks, the number of the line and the
// name of the field, so that those who did can be told. A value stands nowhere.
import { beforeAll, expect, test } from "vitest";
import { useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { slidingPolicy } from "../support/policy.ts";
import { request, type Stage, stageRaw } from "../support/stage.ts";
import type { RawUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const sharedCleanup = useSharedCleanup();
let stage: Stage<RawUpstream>;
let sent = "";
const clock = new FakeClock();
beforeAll(async () => {
  const policies = [slidingPolicy({ limit: 10_000, windowMs: 60_000 })];
  stage = await stageRaw(sharedCleanup, (socket) => void socket.end(sent, "latin1"), { policies }, clock);
});

const ok = "HTTP/1.1 200 OK\r\n";
const chunks = `${ok}Transfer-Encoding: chunked\r\n\r\n`;
/** Stands in no line of the log. */
const canary = "s3cret-canary";

test.each<[name: string, bytes: string, rule: string, line: number | null, field: string | null]>([
  ["another protocol", `SSH-2.0-${canary}\r\n\r\n`, "a version other than HTTP/1", 1, null],
  ["HTTP/2 in text", "HTTP/2 200\r\n\r\n", "a version other than HTTP/1", 1, null],
  ["a status of 99", "HTTP/1.1 099 Odd\r\n\r\n", "a status other than 100 to 999", 1, null],
  ["NUL in the reason", `HTTP/1.1 200 \0${canary}\r\n\r\n`, "a control character", 1, null],
  ["a folded line", `${ok}X-A: a\r\n ${canary}: b\r\n\r\n`, "a folded line", 3, null],
  ["a blank before the colon", `${ok}X-E : ${canary}\r\n\r\n`, "a blank in or behind a name", 2, "X-E"],
  ["no colon", `${ok}X-A: b\r\n${canary}\r\n\r\n`, "a line without a colon", 3, null],
  ["no name", `${ok}: ${canary}\r\n\r\n`, "a name that is no token", 2, null],
  ["a name of other bytes", `${ok}X-A\xe4: ${canary}\r\n\r\n`, "a name that is no token", 2, "X-A"],
  ["a hidden character in a name", `${ok}X-A\x1b[31m: ${canary}\r\n\r\n`, "a control character", 2, "X-A"],
  ["a control character", `${ok}A: b\r\nX-C: ${canary}\x01\r\n\r\n`, "a control character", 3, "X-C"],
  ["a CR alone", `${ok}X-C: a\r${canary}\r\n\r\n`, "a CR without an LF", 2, "X-C"],
  ["a CR alone among LFs", `HTTP/1.1 200 OK\nA: b\nX-C: a\r${canary}\n\n`, "a CR without an LF", 3, "X-C"],
  [
    "a length that is none",
    `${ok}Content-Length: ${canary}\r\n\r\n`,
    "a Content-Length other than 1 to 15 digits",
    2,
    "Content-Length",
  ],
  [
    "two lengths",
    `${ok}content-length: 1\r\nA: b\r\ncontent-length: 2\r\n\r\nab`,
    "the same field for a second time",
    4,
    "content-length",
  ],
  [
    "a length beside chunks",
    `${ok}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
    "a Content-Length beside a Transfer-Encoding",
    3,
    "Transfer-Encoding",
  ],
  [
    "chunks beside a length",
    `${ok}Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n`,
    "a Content-Length beside a Transfer-Encoding",
    3,
    "Content-Length",
  ],
  [
    "another encoding",
    `${ok}Transfer-Encoding: ${canary}\r\n\r\n`,
    "a Transfer-Encoding other than chunked",
    2,
    "Transfer-Encoding",
  ],
  [
    "two encodings",
    `${ok}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n`,
    "the same field for a second time",
    3,
    "Transfer-Encoding",
  ],
  [
    "chunks in HTTP/1.0",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a Transfer-Encoding in HTTP/1.0",
    2,
    "Transfer-Encoding",
  ],
  [
    "a length of an LF head",
    `HTTP/1.1 200 OK\nA: b\nContent-Length: ${canary}\n\n`,
    "a Content-Length other than 1 to 15 digits",
    3,
    "Content-Length",
  ],
  ["LF in a 103", `HTTP/1.1 103 E\r\nLink: ${canary}\n\r\n${ok}\r\n`, "an LF without a CR", 2, "Link"],
  ["LF behind a 100", `HTTP/1.1 100 Continue\r\n\n${ok}\r\n`, "an LF without a CR", 2, null],
  ["a chunk's size", `${chunks}${canary}\r\n`, "the size of a chunk", null, null],
  ["a chunk's end", `${chunks}2\r\nok${canary}\r\n`, "the end of a chunk", null, null],
  ["LF behind a size", `${chunks}2\nok\r\n0\r\n\r\n`, "an LF without a CR, in a line about chunks", null, null],
  ["a trailer", `${chunks}0\r\n${canary}\r\n\r\n`, "a trailer", null, null],
  [
    "a 101 that nobody asked for",
    "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    "a 101 that was not asked for",
    null,
    null,
  ],
  ["too many interim responses", "HTTP/1.1 103 E\r\n\r\n".repeat(17), "too many interim responses", null, null],
  ["a long name", `${ok}${"N".repeat(5_000)}\0: ${canary}\r\n\r\n`, "a control character", 2, "N".repeat(64)],
])("%s", async (_, bytes, rule, line, field) => {
  sent = bytes;
  // At most five lines are written in a second.
  clock.advance(1_000);
  const { connect, gateway } = stage;
  const logged = gateway.logLines.length;
  const client = cleanup(connect({}));
  client.write(request("/v2/x", { fields: "Connection: close\r\n" }));
  await client.closed;
  const own = (msg: string) => gateway.logLines.slice(logged).find((each) => each["msg"] === msg);
  await eventually("the lines are there", () => own("request") !== undefined);
  const where = { line, field };
  expect(own("upstream failed")).toMatchObject({ reason: "malformed", code: "ERR_MALFORMED_RESPONSE", rule, ...where });
  expect(own("request")).toMatchObject({ brokenRule: rule, ...where, id: own("upstream failed")?.["id"] });
  expect(JSON.stringify(gateway.logLines.slice(logged))).not.toContain(canary);
  expect(client.rest).not.toContain(canary);
});
