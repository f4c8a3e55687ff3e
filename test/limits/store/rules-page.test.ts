// What is read of the shared rules: what something else has written there is left out, and nothing beside it.
import { expect, test } from "vitest";
import { forgivenOf, noticeOf, pageOf, ruleOf as ruleOfEntry } from "../../../src/limits/store/rules-call.ts";
import { hiddenTexts, visibleText } from "../../support/hidden-characters.ts";
import { client, ruleOf } from "../../support/rule.ts";

const rule = ruleOf("one", client("192.0.2.0/24"), { action: "limit", policy: "per-ip", limit: 5, revision: 7 });

function entriesOf(...fields: readonly string[]) {
  const values = ["0", ...fields];
  return pageOf({ timeUs: 0, origin: "a", version: 9, floor: 0, values, present: null }).entries;
}

function rulesOf(...contents: readonly object[]): unknown[] {
  const written = contents.flatMap((content, i) => [`r/${i}`, `${i + 1} 9000 n ${JSON.stringify(content)}`]);
  return entriesOf(...written).flatMap((entry) => ruleOfEntry(entry) ?? []);
}

test("a rule is read as it was written, with the id and the revision of its entry, and without what is not known", () => {
  const about = { ...rule.about, since: 1 };
  expect(rulesOf({ ...rule, about, id: undefined, later: true })).toEqual([{ ...rule, id: "0", revision: 1 }]);
});

test.each([
  ["is about no network", { about: client("10.0.0.256") }],
  ["is about nobody", { about: null }],
  ["has an unknown action", { action: "allow" }],
  ["has no limit", { limit: null }],
  ["has a limit without the action", { action: "block" }],
  ["ends at no instant", { endsMs: "soon" }],
])("a rule that %s is left out, and the next one is read", (_, change) => {
  expect(rulesOf({ ...rule, ...change }, rule)).toEqual([{ ...rule, id: "1", revision: 2 }]);
});

test.each([
  ["no revision", "n {}"],
  ["a revision that is no whole number below 2^53", "9999999999999999 9000 n "],
  ["an unknown mark", "1 9000 x "],
])("an entry with %s is left out, and the next one is read", (_, value) => {
  const read = entriesOf("r/a", value, ".version", "9", "r/b", "3 9000 a ");
  expect(read).toEqual([{ name: "r/b", text: "", revision: 3, endsMs: 9000, isNew: false }]);
});

test.each(["{", "7", "null", "{}", '{"kind":"key"}', '{"kind":"other","value":"x"}', '{"gateway":"a","host":"b"}'])(
  "%s is neither a rule nor a forgiveness nor a notice",
  (text) => {
    const read = entriesOf(...["r/a", "f/a", "n/a"].flatMap((name) => [name, `1 9000 n ${text}`]));
    expect(read.map((entry) => ruleOfEntry(entry) ?? forgivenOf(entry) ?? noticeOf(entry))).toEqual([null, null, null]);
  },
);

test.each(hiddenTexts)("%s in a note or a name is not read", (_, text) => {
  const clean = text.replaceAll(/[^ab[2J]/gu, "");
  const [read] = rulesOf({ ...rule, note: text, setBy: text });
  expect(read).toEqual({ ...rule, note: clean, setBy: clean, id: "0", revision: 1 });
});

test("what a reader sees in a note is read as it was written", () => {
  expect(rulesOf({ ...rule, note: visibleText })).toEqual([{ ...rule, note: visibleText, id: "0", revision: 1 }]);
});
