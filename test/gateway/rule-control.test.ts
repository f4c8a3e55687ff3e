// A condition of a call about a rule that another gateway has changed: it is judged by what is there now, and the answer says
// what that is in the words of the condition.
import { expect, test } from "vitest";
import type { ControlResult, Precondition, RuleVersions } from "../../src/admin/control-plane.ts";
import type { Rule } from "../../src/core/rules.ts";
import { createRuleControl } from "../../src/gateway/control/rule-control.ts";
import { RuleBook, type RuleLog } from "../../src/gateway/rule-book.ts";
import { testSettings } from "../support/gateway.ts";
import { client, ruleOf } from "../support/rule.ts";
import { keptLog } from "../telemetry/lines.ts";

const wallMs = Date.UTC(2026, 10, 24, 12);
const wanted = { client: "192.0.2.8", action: "block", for: "1h" } as const;
const caller = { name: "ops", peer: null } as const;
const ofRevision = (revision: number): Rule => ruleOf("a", client("192.0.2.8"), { revision, endsMs: wallMs + 60_000 });

interface Asked {
  /** The revision of the rule here and in the log, which nobody here has read yet; 0: there is none. */
  readonly here: number;
  readonly inLog: number;
  readonly precondition: Precondition;
  /** Of the log before each write: another gateway is faster again and again. Default: it stays. */
  readonly rises?: boolean;
}

async function ask(call: "put" | "remove", { here, inLog, precondition, rises = false }: Asked) {
  const settings = testSettings("http://127.0.0.1:9");
  const restored = here === 0 ? [] : [ofRevision(here)];
  const book = new RuleBook({ clock: { wallMs: () => wallMs }, log: keptLog().log, restored, survivesRestart: false });
  let held = inLog;
  let written = 0;
  const write = (to: number, expected: "any" | "absent" | number) => {
    if (rises) held += 1;
    const isExpected = expected === "any" || (expected === "absent" ? 0 : expected) === held;
    if (!isExpected || (to === 0 && held === 0)) return { outcome: "conflict" as const, revision: held };
    held = to;
    written += 1;
    void book.take(to === 0 ? { set: [], removed: ["a"] } : { set: [ofRevision(to)], removed: [] });
    return { outcome: "written" as const, revision: to, isShared: true };
  };
  const log: RuleLog = {
    put: async (_, expected) => write(held + 100, expected),
    remove: async (_, expected) => write(0, expected),
    isTold: () => true,
    async readNow() {
      await book.take(held === 0 ? { set: [], removed: ["a"] } : { set: [ofRevision(held)], removed: [] });
      return true;
    },
  };
  await book.publishTo({ settings, listedTokens: () => null, changeRules: async () => {} }, log);
  const control = createRuleControl({ keeper: book, context: () => ({ settings, listed: null }) });
  const answer: ControlResult<RuleVersions> =
    call === "put"
      ? await control.put("a", wanted, precondition, caller)
      : await control.remove("a", precondition, caller);
  book.close();
  return answer.ok ? { written } : { written, why: answer.why, details: answer.details };
}

const missing = { kind: "missing" } as const;
const exists = { kind: "exists" } as const;
const revisions = (...of: number[]) => ({ kind: "revisions", revisions: of }) as const;
const mismatch = (text: string) => ({ written: 0, why: "mismatch", details: [text] });
const isThere = mismatch("If-None-Match: there is a rule with this id.");
const isGone = mismatch("If-Match: there is no rule with this id.");
const isOther = mismatch('If-Match: the entity tag of the rule is "5" now.');

test.each<[string, Asked, unknown]>([
  ["no rule, but another gateway has set one", { here: 0, inLog: 5, precondition: missing }, isThere],
  ["a revision that another gateway has replaced", { here: 3, inLog: 5, precondition: revisions(3) }, isOther],
  ["a rule that another gateway has removed", { here: 3, inLog: 0, precondition: revisions(3) }, isGone],
  ["any rule, but another gateway has removed it", { here: 3, inLog: 0, precondition: exists }, isGone],
  ["any rule, and another gateway has replaced it", { here: 3, inLog: 5, precondition: exists }, { written: 1 }],
  [
    "one of two revisions, of which the log has one",
    { here: 3, inLog: 5, precondition: revisions(3, 5) },
    { written: 1 },
  ],
])("a rule is set under a condition: %s", async (_, asked, answer) => {
  expect(await ask("put", asked)).toEqual(answer);
});

test.each<[string, Asked, unknown]>([
  ["a revision that another gateway has replaced", { here: 3, inLog: 5, precondition: revisions(3) }, isOther],
  ["a rule that another gateway has removed", { here: 3, inLog: 0, precondition: revisions(3) }, isGone],
  ["any rule, and another gateway has replaced it", { here: 3, inLog: 5, precondition: exists }, { written: 1 }],
])("a rule is removed under a condition: %s", async (_, asked, answer) => {
  expect(await ask("remove", asked)).toEqual(answer);
});

test("a rule without a condition is removed once, and not found then", async () => {
  const none = { kind: "none" } as const;
  expect(await ask("remove", { here: 3, inLog: 5, precondition: none })).toEqual({ written: 1 });
  const gone = await ask("remove", { here: 3, inLog: 0, precondition: none });
  expect(gone).toEqual({ written: 0, why: "absent", details: ["there is no such rule"] });
});

test("a rule that others change again and again is given up", async () => {
  const asked = { here: 3, inLog: 5, precondition: exists, rises: true };
  expect(await ask("put", asked)).toEqual(mismatch("The rule is changed at other gateways at the same time."));
});
