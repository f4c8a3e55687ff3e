// The kinds of answer that HTTP/2 can have, from the same table as HTTP/1.1's: each carries the six fields and Date once,
// and each of the gateway's own has the same body.
import { expect, test } from "vitest";
import { type AnswerCase, quotaAnswers, refusals, upstreamAnswers, upstreamFailures } from "../support/answer-cases.ts";
import { cleanupOf } from "../support/cleanup.ts";
import { expectContractFields, sixFields } from "../support/contract-fields.ts";
import { Http2Client } from "../support/http2-client.ts";
import { valuesOf } from "../support/raw-client.ts";
import { stageCase } from "../support/stage-case.ts";
import { useTls } from "../support/tls-listener.ts";

const withTls = useTls();

const rows = [...upstreamAnswers, ...refusals, ...quotaAnswers, ...upstreamFailures];
const cases = rows.filter(({ notOverHttp2 }) => notOverHttp2 === undefined);

// At the same time, because some of them wait.
test.concurrent.for(cases)("$status $name", async (row, context) => {
  const cleanup = cleanupOf(context);
  // A client that is answered in the middle of its request sends no more, and is told soon to stop.
  const { ca, overrides } = withTls({ ...row.overrides, timeouts: { lingerMs: 500, ...row.overrides?.timeouts } });
  const { gateway, raw } = await stageCase(row, cleanup, overrides);
  const client = new Http2Client(gateway.traffic.port, ca, cleanup);

  const { method, ...ask } = asHttp2(row);
  const answer = await client.ask({ method, ...ask });

  expect(answer.status).toBe(row.status);
  expectContractFields(answer, { limit: row.limit ?? 100, remaining: row.remaining ?? 99 }, (name) =>
    name.toLowerCase(),
  );
  const [id = ""] = valuesOf(answer.rawHeaders, "x-request-id");
  // Of a head that is too large, the rest is not kept.
  expect(id).toMatch(row.status === 431 ? /^[0-9a-f-]{36}$/ : /^mine\/1$/);
  if (row.own !== undefined) {
    const [message, errMsg] = row.own;
    expect(answer.body).toBe(method === "HEAD" ? "" : JSON.stringify({ message, errors: [{ errMsg }] }));
  }
  if (row.upstream === undefined) expect(raw.bytes()).toBe("");
  for (const name of ["connection", "transfer-encoding", "keep-alive"])
    expect(valuesOf(answer.rawHeaders, name)).toEqual([]);
});

test("most of the table is there, and what is left out is left out for HTTP/2 alone", () => {
  expect(rows.length - cases.length).toBeLessThan(20);
  expect(sixFields).toHaveLength(6);
  for (const { notOverHttp2 } of rows) expect(notOverHttp2).not.toBe("");
});

function asHttp2({ send }: AnswerCase) {
  const [head = "", body = ""] = send.split("\r\n\r\n");
  const [line = "", ...lines] = head.split("\r\n");
  const [method = "", path = ""] = line.split(" ");
  const fields: Record<string, string | string[]> = { authorization: [], "x-request-id": "mine/1" };
  let isChunked = false;
  for (const text of lines) {
    const [name = "", value = ""] = text.split(": ");
    if (/^transfer-encoding$/i.test(name)) isChunked = true;
    else if (!/^host$/i.test(name)) fields[name.toLowerCase()] = value;
  }
  const content = isChunked ? (/\r\n(.*)\r\n/.exec(body)?.[1] ?? "") : body;
  const announces = fields["content-length"] !== undefined || isChunked;
  return {
    method,
    path,
    fields,
    ...(announces ? { body: content, isOpen: content === "" || /slow/.test(content) } : {}),
  };
}
