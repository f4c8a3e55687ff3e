// docs/log-pipelines.md: its table and its recipes name fields of the access log, and its patterns rename what they say, on
// lines as the gateway writes them.
import { expect, test } from "vitest";
import { parse } from "yaml";
import { createAccessLog } from "../../src/telemetry/access-log.ts";
import { Samplers } from "../../src/telemetry/log.ts";
import { FakeClock } from "../support/clock.ts";
import { keptLog } from "../telemetry/lines.ts";
import { exchangeOf } from "../telemetry/scrape.ts";
import { codeBlocks, read } from "./markdown.ts";

const path = "docs/log-pipelines.md";
const page = read(path);

/** Of a request, of one whose client left, of a malformed one, of a slow and of a blocked one. */
function writtenLines(): string[] {
  const { log, written } = keptLog();
  const access = createAccessLog(new Samplers(log, new FakeClock(), 5));
  const left = { status: 0, complete: false, answeredMs: null, traceId: null, route: null } as const;
  const detail = { rule: "a folded line", line: 3, field: null };
  for (const changes of [
    { subject: "alice" },
    left,
    { detail },
    { detail: "timeouts.body 60 s" },
    { rule: "block-1" },
  ]) {
    access.record(exchangeOf(changes), '/v2/a,"status":5');
  }
  return written;
}

/** As logs.md has them, whose test compares them with lines. */
const fields = new Set(
  [...read("docs/logs.md").matchAll(/^\| `(\w+)` \| .+ \| .+ \|$/gm)].map(([, name = ""]) => name),
);

test("the table has only fields that there are", () => {
  const rows = [...page.matchAll(/^\| `(\w+)` \| [^|]+ \| [^|]+ \|$/gm)].map(([, name = ""]) => name);
  expect(rows.length).toBeGreaterThan(10);
  expect(rows.filter((name) => name !== "msg" && !fields.has(name))).toEqual([]);
});

test("the recipes name no field that does not exist", () => {
  const named = [
    ...page.matchAll(
      /(?:headgate|jsonPayload|line)\.(\w+)\b(?!")|\[headgate\]\[(\w+)\]|\$!headgate!(\w+)|attributes\.(\w+)/g,
    ),
  ].map((found) => found.slice(1).find((name) => name !== undefined) ?? "");
  expect(named.length).toBeGreaterThan(60);
  // Parts of `headgate.log`, `conf.d/headgate.d` and of Alloy's `headgate.receiver`.
  const known = new Set([...fields, "msg", "log", "d", "receiver"]);
  expect(named.filter((name) => !known.has(name))).toEqual([]);
});

test("each example in YAML is YAML", () => {
  const blocks = codeBlocks(path, "yaml");
  expect(blocks.length).toBeGreaterThan(5);
  for (const block of blocks) expect(parse(block)).toBeTypeOf("object");
});

test("the rules for Datadog and Splunk rename one field each, whatever a client has sent", () => {
  const [datadog] = codeBlocks(path, "yaml").filter((block) => block.includes("mask_sequences"));
  const rules: { pattern: string; replace_placeholder: string }[] = parse(datadog ?? "").logs[0].log_processing_rules;
  const [, splunk = "", name = ""] = /^SEDCMD-source = s\/(.*)\/(.*)\/$/m.exec(page) ?? [];
  for (const line of writtenLines()) {
    const before = JSON.parse(line);
    const masked = rules.reduce((text, rule) => text.replaceAll(rule.pattern, rule.replace_placeholder), line);
    const { status, client, source, ...rest } = before;
    expect(JSON.parse(masked)).toEqual({
      ...rest,
      "http.status_code": status,
      "network.client.ip": client,
      carrier: source,
    });
    expect(JSON.parse(line.replace(splunk, name))).toEqual({ ...rest, status, client, carrier: source });
  }
});
