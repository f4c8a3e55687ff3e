// The rules in a snapshot: read again as they were written, and left out alone where they are damaged.
import { expect, test } from "vitest";
import type { Rule } from "../../../src/core/rules.ts";
import { finishSection, sectionHeaderBytes, sections } from "../../../src/limits/snapshot/format.ts";
import { hiddenTexts, visibleText } from "../../support/hidden-characters.ts";
import { client, ruleOf } from "../../support/rule.ts";
import { describe, encode, read, sampleRecords } from "./sample.ts";

const rules: readonly Rule[] = [
  ruleOf("a", client("192.0.2.0/24"), { note: 'a "note" of \u20ac', endsMs: 1_790_000_000_000 }),
  ruleOf("b", { kind: "token", value: "alice" }, { action: "exempt", policy: "per-token", revision: 7 }),
  ruleOf("c", { kind: "subject", value: "bob" }, { action: "limit", policy: "per-ip", limit: 5, setBy: "socket" }),
];

async function rulesIn(bytes: Buffer): Promise<readonly Rule[] | null | string> {
  const reading = await read(bytes);
  return reading.ok ? reading.snapshot.rules : reading.reason;
}

test("rules are read again as they were written", async () => {
  expect(await rulesIn(encode(sampleRecords, describe(), rules))).toEqual(rules);
});

test("notes and names are read without characters that a reader does not see", async () => {
  const texts = [...hiddenTexts.map(([, text]) => text), visibleText];
  const written = texts.map((text, i) => ruleOf(`r${i}`, client("192.0.2.0/24"), { note: text, setBy: text }));
  const restored = await rulesIn(encode(sampleRecords, describe(), written));
  const clean = texts.map((text) => (text === visibleText ? text : text.replaceAll(/[^ab[2J]/gu, "")));
  expect(restored).toEqual(written.map((rule, i) => ({ ...rule, note: clean[i], setBy: clean[i] })));
});

test("a snapshot from before there were rules has none, and so has one without rules", async () => {
  expect(encode()).toEqual(encode(sampleRecords, describe(), []));
  expect(await rulesIn(encode())).toEqual([]);
});

test("where a byte of the rules is wrong, only they are left out", async () => {
  const [before, bytes] = [encode(), encode(sampleRecords, describe(), rules)];
  const start = bytes.findIndex((byte, i) => byte !== before[i]);
  const length = bytes.length - before.length;
  for (let at = start; at < start + length; at += 1) {
    const damaged = Buffer.from(bytes);
    damaged[at] = (damaged[at] ?? 0) ^ 1;
    const found = await rulesIn(damaged);
    // Without its kind and its length, nobody knows where the next section begins.
    const isHeader = at < start + 8;
    expect(found === null || (isHeader && typeof found === "string")).toBe(true);
  }
});

const wrong: readonly (readonly [claim: string, content: string])[] = [
  ["no JSON", "["],
  ["no list", "{}"],
  ["a rule without an id", JSON.stringify([{ ...rules[0], id: undefined }])],
  ["a rule about nobody", JSON.stringify([{ ...rules[0], about: null }])],
  ["a rule about a network that is none", JSON.stringify([{ ...rules[0], about: client("10.0.0.256") }])],
  ["another action", JSON.stringify([{ ...rules[0], action: "allow" }])],
  ["a limit of nothing", JSON.stringify([{ ...rules[2], limit: null }])],
  ["an end that is no number", JSON.stringify([{ ...rules[0], endsMs: "soon" }])],
  ["one good rule and one that is none", JSON.stringify([rules[0], 7])],
];
test.each(wrong)("a list with %s is left out, and the counters are read", async (_, content) => {
  const before = encode();
  const section = finishSection(
    Buffer.concat([Buffer.alloc(sectionHeaderBytes), Buffer.from(content)]),
    sections.rules,
  );
  const bytes = encode(sampleRecords, describe(), rules);
  const start = bytes.findIndex((byte, i) => byte !== before[i]);
  const reading = await read(Buffer.concat([before.subarray(0, start), section, before.subarray(start)]));
  expect(reading).toMatchObject({ ok: true, snapshot: { rules: null, records: sampleRecords.length } });
});
