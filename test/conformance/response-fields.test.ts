// Every kind of answer there is, as bytes on a socket: each carries the six fields and Date once, with the gateway's
// values, whoever made it and whatever the upstream sent under the same names; each of the gateway's own has the v2
// body; each request gets exactly one.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { localReplies } from "../../src/core/local-reply.ts";
import {
  type AnswerCase,
  answeredElsewhere,
  get,
  ok,
  quotaAnswers,
  refusals,
  upstreamAnswers,
  upstreamFailures,
} from "../support/answer-cases.ts";
import { cleanupOf, useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { expectContractFields, expectOwnAnswer, sixFields } from "../support/contract-fields.ts";
import { within } from "../support/eventually.ts";
import { valuesOf } from "../support/raw-client.ts";
import { type FramedResponse, RawConnection } from "../support/raw-connection.ts";
import { stageRaw } from "../support/stage.ts";
import { stageCase } from "../support/stage-case.ts";

const cleanup = useCleanup();

// At the same time, because some of them wait.
describe.concurrent.each([
  ["the upstream's answer", upstreamAnswers],
  ["the gateway refuses", refusals],
  ["the gateway tells the caller's quota", quotaAnswers],
  ["the upstream fails", upstreamFailures],
] as const)("%s", (_, cases) => {
  test.for<AnswerCase>(cases)("$status $name: six fields and Date once each, one answer", async (row, context) => {
    const cleanup = cleanupOf(context);
    const { gateway, raw } = await stageCase(row, cleanup);
    const client = cleanup(new RawConnection(gateway.traffic.port));

    client.write(row.send.replace("\r\n\r\n", "\r\nX-Request-Id: mine/1\r\n\r\n"));
    const [method = ""] = row.send.split(" ");
    const response = await readFinal(client, method);

    expect(response.status).toBe(row.status);
    expectContractFields(response, { limit: row.limit ?? 100, remaining: row.remaining ?? 99 });
    expect(valuesOf(response.rawHeaders, "X-Request-Id")).toEqual([
      row.status !== 502 && unread.has(row.name) ? expect.stringMatching(/^[0-9a-f-]{36}$/) : "mine/1",
    ]);
    if (row.own !== undefined) expectOwnAnswer(response, ...row.own, method);
    if (row.upstream === undefined) expect(raw.bytes()).toBe("");
    await expectNoFurtherAnswer(client, valuesOf(response.rawHeaders, "Connection"));
  });
});

test("each answer that the gateway makes itself is a row, or in a test that is named", () => {
  const rows = [...refusals, ...quotaAnswers, ...upstreamFailures].flatMap(({ status, own = [] }) => [
    [status, ...own].join(),
  ]);
  const missing = Object.entries(localReplies).filter(
    ([name, { status, message, errMsg }]) => !rows.includes(`${status},${message},${errMsg}`) && !isElsewhere(name),
  );
  expect(missing.map(([name]) => name)).toEqual([]);
});

function isElsewhere(reply: string): boolean {
  const [file, words = ""] = new Map(Object.entries(answeredElsewhere)).get(reply) ?? [];
  return file !== undefined && readFileSync(new URL(`../${file}`, import.meta.url), "utf8").includes(words);
}

/** Of these no header is read, so the id is one of the gateway's. */
const unread: ReadonlySet<string> = new Set([
  ...["not HTTP", "length and encoding", "slow head", "over 16 KiB", "one large field", "300 fields"],
  ...["a method that is none", "CONNECT"],
]);

test("with the structured fields on, the upstream's own are dropped as well", async () => {
  const { gateway } = await stageRaw(cleanup, ok, { fields: ["structured"] }, new FakeClock());
  const { rawHeaders } = await cleanup(new RawConnection(gateway.traffic.port)).ask(get());
  expect(valuesOf(rawHeaders, "RateLimit")).toEqual(['"per-ip";r=99;t=60']);
  expect(valuesOf(rawHeaders, "RateLimit-Policy")).toEqual(['"per-ip";q=100;w=60']);
  expect(rawHeaders.filter((name) => /^(x-)?ratelimit-(limit|remaining|reset)$/i.test(name))).toEqual([]);
});

/** The connection either ends without another byte, or answers the next request with what belongs to that one. */
async function expectNoFurtherAnswer(client: RawConnection, connection: string[]): Promise<void> {
  if (!connection.includes("close")) {
    expect((await client.ask("GET /elsewhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).status).toBe(404);
  }
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(client.rest).toBe("");
}

/** An interim response carries none of the fields: it speaks of no decision. */
async function readFinal(client: RawConnection, method: string): Promise<FramedResponse> {
  for (;;) {
    const response = await client.read({ method });
    if (response.status >= 200) return response;
    for (const name of [...sixFields, "Date"]) expect(valuesOf(response.rawHeaders, name)).toEqual([]);
  }
}
