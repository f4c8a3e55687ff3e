// Every kind of answer there is, to a request with secrets in every place: none of them comes back in an answer of the
// gateway's own, gets into the log at any level, or into the metrics; nor does anything of the machine or the code.
import { describe, expect, test } from "vitest";
import {
  type AnswerCase,
  quotaAnswers,
  refusals,
  upstreamAnswers,
  upstreamFailures,
} from "../../support/answer-cases.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually, within } from "../../support/eventually.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { stageCase } from "../../support/stage-case.ts";
import { forwardedAddress, leaksOf, mark, withSecrets } from "./secrets.ts";

const cleanup = useCleanup();

/** What came back, and what was told about it. */
async function observed(row: AnswerCase) {
  // The upstream's answer holds secrets of its own, of which only the client may know.
  const { gateway, upstreamUrl } = await stageCase(row, cleanup);
  const client = cleanup(new RawConnection(gateway.traffic.port)).write(withSecrets(row.send));
  // Whatever it is, it begins with a head; the rest is there when the connection has ended or another answer can come.
  await eventually("an answer has begun", () => /\r\n\r\n/.test(client.rest), 8_000);
  client.socket.end();
  await within("the connection ends", client.closed);
  const openMetrics = { headers: { accept: "application/openmetrics-text" } };
  const pages = [
    ...(await Promise.all(["/metrics", "/readyz", "/livez"].map((path) => fetch(`${gateway.adminUrl}${path}`)))),
    await fetch(`${gateway.adminUrl}/metrics`, openMetrics),
  ];
  const admin = (await Promise.all(pages.map((page) => page.text()))).join("\n");
  await gateway.close();
  const log = gateway.logLines.filter(({ msg }) => msg !== "listening").map((line) => JSON.stringify(line));
  return { answer: client.rest, admin, log, upstreamPort: new URL(upstreamUrl).port };
}

describe.each([
  ["the upstream answers", upstreamAnswers],
  ["the gateway refuses", refusals],
  ["the gateway tells the caller's quota", quotaAnswers],
  ["the upstream fails", upstreamFailures],
] as const)("%s", (_, cases) => {
  test.each(cases)("$status $name: nothing leaks", async (row) => {
    const { answer, admin, log, upstreamPort } = await observed(row);
    expect(answer).toMatch(/^HTTP\/1\.1 \d{3} /);
    if (row.own !== undefined) expect(leaksOf(answer)).toEqual([]);
    // Not the first digits of a time.
    const asPort = new RegExp(`:${upstreamPort}(?!\\d)`);
    expect(answer).not.toMatch(asPort);
    expect(answer).not.toContain(mark);
    expect(leaksOf(admin)).toEqual([]);
    expect(admin).not.toContain("/v2/x");
    // Documented: the log names the client by its address, and the code of what went wrong with the upstream.
    const text = log.join("\n");
    expect(log.length).toBeGreaterThan(0);
    expect(leaksOf(text, ["an address", "a code of the system"])).toEqual([]);
    const addresses = text.match(/\b\d{1,3}(?:\.\d{1,3}){3}\b/g) ?? [];
    expect([...new Set(addresses)].filter((address) => address !== "127.0.0.1")).toEqual([]);
    expect(text).not.toContain(forwardedAddress);
    // The log alone names the upstream's address, and in one field alone.
    expect(text.replace(`"address":"127.0.0.1:${upstreamPort}"`, "")).not.toMatch(asPort);
  });
});

test("the detector finds what it looks for", () => {
  const sent = withSecrets("GET /v2/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret-token\r\n\r\n");
  for (const part of ["token", "cookie", "query", "parameter", "key"]) expect(sent).toContain(`${mark}-${part}`);
  expect(leaksOf(sent)).toContain("a secret");
  const { stack = "" } = new Error("connect ECONNREFUSED 127.0.0.1:3000");
  expect(leaksOf(stack)).toEqual([
    "an address",
    "a path of a file",
    "a stack",
    "a code of the system",
    "the folder it runs from",
  ]);
});
