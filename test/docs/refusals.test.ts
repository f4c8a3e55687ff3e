// docs/refusals.md, held to the code: each refusal, each failure of the upstream, each end of an HTTP/2 connection and each
// refusal of a check has its row, and there is no other row.
import { expect, test } from "vitest";
import { http2CloseReasons, http2ResetReasons } from "../../src/core/connection-ends.ts";
import { errorContent, type LocalReply, localReplies } from "../../src/core/local-reply.ts";
import { upstreamErrorReasons } from "../../src/core/upstream.ts";
import { checkProblems } from "../../src/ext-auth/check.ts";
import { upstreamReply } from "../../src/upstream/upstream-error.ts";
import { read } from "./markdown.ts";

/** The cells of the rows of a section, without the head of its table. */
function rowsOf(section: string): readonly (readonly string[])[] {
  const [, text = ""] = new RegExp(`^## ${section}$(.*?)(?=^## |$(?![^]))`, "ms").exec(read("docs/refusals.md")) ?? [];
  const rows = [...text.matchAll(/^\| (.*) \|$/gm)].map(([, row = ""]) => row.split(" | "));
  expect(rows.length, section).toBeGreaterThan(3);
  return rows.slice(1);
}

/** Texts in backquotes, of each cell the first. */
const first = (cell = ""): string => /`([^`]+)`/.exec(cell)?.[1] ?? cell;

const named = (rows: readonly (readonly string[])[]): string[] =>
  rows.map(([status = "", problem, detail]) => `${status} ${first(problem)} ${first(detail)}`);

test("each reply that the gateway makes itself has a row, and no other has", () => {
  const replies: readonly LocalReply[] = Object.values(localReplies);
  const made = replies
    .filter(({ status }) => status !== 502 && status !== 504)
    .map(({ status, reason, detail }) => `${status} ${reason} ${typeof detail === "string" ? detail : "–"}`);
  const written = named([...rowsOf("Requests"), ...rowsOf("Of the gateway itself")])
    // What was too slow is said with figures.
    .map((row) => row.replace(/^(408 slow_request) .*/, "$1 –"));
  const byUpstream = named(rowsOf("Answers of the upstream")).filter((row) => row.startsWith("503"));
  expect([...new Set([...written, ...byUpstream.map(() => "503 overloaded –")])].sort()).toEqual(
    [...new Set(made)].sort(),
  );
});

test("the example of each format is what a client gets", () => {
  const [, text = ""] = /^## The three formats of the body$(.*?)^## /ms.exec(read("docs/refusals.md")) ?? [];
  const examples = [...text.matchAll(/^`(v2|problem|plain)`.*?\(`([^`]+)`\).*?^```\w*\n(.*?\n)```/gms)];
  const written = examples.map(([, format, type, body]) => [format, type, body?.trim()]);
  const made = (["v2", "problem", "plain"] as const).map((format) => {
    const { body, lines } = errorContent(localReplies.throttled, format);
    return [format, /Content-Type: (.*)\r\n/.exec(lines)?.[1], body.trim()];
  });
  expect(written).toEqual(made);
});

test("each reason for which the upstream fails has one row, with the status that clients get", () => {
  const written = rowsOf("Answers of the upstream").flatMap(([status = "", problem, reasons = ""]) =>
    [...reasons.matchAll(/`(\w+)`/g)].map(([, reason]) => `${reason} ${status} ${first(problem)}`),
  );
  const made = upstreamErrorReasons.map((reason) => {
    const { status, reason: problem } = upstreamReply(reason);
    // The head of the response has been sent.
    return reason === "body_timeout" ? `${reason} – –` : `${reason} ${status} ${problem}`;
  });
  expect(written.sort()).toEqual([...made].sort());
});

test("each reason for which an HTTP/2 connection or stream ends has one row", () => {
  const written = rowsOf("HTTP/2").map(([, metric = ""]) => [...metric.matchAll(/`(\w+)`/g)].at(-1)?.[1]);
  expect(written).toEqual([...http2CloseReasons, ...http2ResetReasons]);
});

test("each refusal of a check that is no decision has one row", () => {
  const written = rowsOf("Checks of an ingress").map(([status, text]) => `${status} ${text}`);
  const made = Object.values(checkProblems).map(({ status, errMsg }) => `${status} ${errMsg}`);
  expect(written.sort()).toEqual(made.sort());
});

test("no row is empty: it says who meets the refusal and what helps", () => {
  for (const section of ["Requests", "Answers of the upstream", "Of the gateway itself", "HTTP/2"]) {
    for (const row of rowsOf(section)) {
      expect(
        row.slice(-2).map((cell) => cell.length > 0),
        row.join(),
      ).toEqual([true, true]);
    }
  }
});
