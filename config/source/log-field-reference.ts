// Generates the table of the fields of an access log line in docs/logs.md: names and types from lines that are written here, and
// the meaning from log-fields.yaml.
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { createAccessLog } from "../../src/telemetry/access-log.ts";
import { Samplers } from "../../src/telemetry/log.ts";
import { FakeClock, keptLog } from "../../test/telemetry/lines.ts";
import { type ExchangeChanges, exchangeOf } from "../../test/telemetry/scrape.ts";

export function logFieldReference(): string {
  const notes: Readonly<Record<string, string>> = parse(
    readFileSync(new URL("log-fields.yaml", import.meta.url), "utf8"),
  );
  const lines = sampleLines();
  const names = new Set(lines.flatMap(Object.keys).filter((name) => name !== "msg"));
  const different = [
    ...[...names].filter((name) => !(name in notes)),
    ...Object.keys(notes).filter((name) => !names.has(name)),
  ];
  if (different.length > 0) throw new Error(`log-fields.yaml and the access log differ: ${different.join(", ")}`);
  const rows = Object.entries(notes).map(([name, note]) => `| \`${name}\` | ${typeOf(name, lines)} | ${note} |`);
  return ["| field | type | meaning |", "|---|---|---|", ...rows, ""].join("\n");
}

function typeOf(name: string, lines: readonly Readonly<Record<string, unknown>>[]): string {
  const kinds = new Set(lines.filter((line) => name in line).map((line) => kindOf(line[name])));
  if (kinds.has("number")) kinds.delete("whole number");
  const { length } = lines.filter((line) => name in line);
  return `${[...kinds].sort(nullLast).join(" or ")}${length < lines.length ? ", only on some lines" : ""}`;
}

function nullLast(a: string, b: string): number {
  return Number(a === "null") - Number(b === "null");
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (typeof value === "number") return Number.isInteger(value) ? "whole number" : "number";
  return typeof value === "boolean" ? "true or false" : "text";
}

/** Of requests that together have each field, and each that may be null as null, too. */
function sampleLines(): Readonly<Record<string, unknown>>[] {
  const rule = "a folded line";
  const samples: ExchangeChanges[] = [
    { startedMs: 1_000.25, answeredMs: 1_042.5, requestId: "order-7", subject: "alice" },
    { head: { rawHeaders: ["User-Agent", "curl"] }, status: 0, complete: false, traceId: null, route: null },
    { answeredMs: null, bytesReceived: null, bytesSent: null, problem: "slow_request", detail: "timeouts.body 60 s" },
    { detail: { rule, line: 3, field: "Host" } },
    { detail: { rule, line: null, field: null } },
    { rule: "block-1" },
  ];
  const { log, written } = keptLog();
  const access = createAccessLog(new Samplers(log, new FakeClock(), samples.length));
  for (const changes of samples) access.record(exchangeOf(changes), "/v2/a");
  return written.map((line) => JSON.parse(line));
}
