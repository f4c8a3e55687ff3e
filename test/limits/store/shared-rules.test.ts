// What a gateway makes of its own writes when the answers of the store come in one piece: to a write, and to a reading that was
// sent behind it. Everything else of the shared rules is in `simulation/`.
import { expect, test } from "vitest";
import type { ForgivenKey, RuleChange } from "../../../src/core/rules.ts";
import type { OnAnswer, StoreLink } from "../../../src/core/store-link.ts";
import { type Entry, forgivenEntry, ruleEntry } from "../../../src/limits/store/rules-call.ts";
import { type ForgivenNotice, SharedRules } from "../../../src/limits/store/shared-rules.ts";
import { client, ruleOf } from "../../support/rule.ts";
import { ManualTimers } from "./manual-timers.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

async function stage() {
  const timers = new ManualTimers();
  const calls: OnAnswer[] = [];
  const link: StoreLink = {
    ...{ isClustered: false, shards: [0], shardOf: () => 0, anyTagOf: () => "rules" },
    ...{ events: { onConnected() {}, onDisconnected() {}, onGone() {} }, identify() {}, reconnect() {}, open() {} },
    call: (_shard, _keys, _args, answered) => void calls.push(answered),
    close: async () => {},
  };
  const forgiven: ForgivenNotice[] = [];
  const changes: RuleChange[] = [];
  const rules = new SharedRules({
    ...{ link, clock: timers.clock, timers, prefix: "headgate:", origin: "own" },
    onRules: (change, isAll) => void (isAll || changes.push(change)),
    onForgiven: (some) => void forgiven.push(...some),
    ...{ onTakenBack() {}, onState() {} },
  });
  const reply = (version: number, ...values: readonly (string | number)[]) => [0, "origin", version, 0, values, null];
  rules.open();
  link.events.onConnected(0);
  await turn();
  calls.shift()?.(reply(1, "0"), null);
  await turn();
  /** Answers a write that was sent and the reading behind it, without a turn between the two. */
  const answerBoth = async ({ name, text, endsMs }: Entry): Promise<void> => {
    void rules.readNow();
    await turn();
    const [write, read, ...others] = calls.splice(0);
    expect(others).toEqual([]);
    write?.(reply(2, 1, 2), null);
    read?.(reply(2, "0", name, `2 ${endsMs} n ${text}`), null);
    await turn();
    // The reading that follows a forgiveness.
    calls.shift()?.(reply(2, "0", name, `2 ${endsMs} n ${text}`), null);
  };
  return { timers, rules, forgiven, changes, answerBoth };
}

test("a forgiveness of its own is forgotten once, by the very name that somebody waits for", async () => {
  const { timers, rules, forgiven, answerBoth } = await stage();
  const name: ForgivenKey = { kind: "client", value: "192.0.2.1" };
  const isShared = rules.forgive(name);
  await answerBoth(forgivenEntry(name, timers.clock.wallMs() + 32 * 86_400_000, 0));
  expect(await isShared).toBe(true);
  expect(forgiven).toEqual([{ name, seq: 2 }]);
  expect(forgiven[0]?.name).toBe(name);
});

test("a rule of its own is told once", async () => {
  const { timers, rules, changes, answerBoth } = await stage();
  const rule = ruleOf("one", client("192.0.2.0/24"), { endsMs: timers.clock.wallMs() + 60_000 });
  const put = rules.put(rule, "any");
  await answerBoth(ruleEntry({ ...rule, revision: 0 }));
  expect(await put).toMatchObject({ outcome: "written", isShared: true });
  expect(changes).toEqual([{ set: [expect.objectContaining({ id: "one", revision: 2 })], removed: [] }]);
});
