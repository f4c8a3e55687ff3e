// The user of the store in docs/store.md, on a real server: it may do all that the gateway does, and no command
// is on its list without need.
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { StoreConnectionSettings, StoreIdentity, StoreLink } from "../../../../src/core/store-link.ts";
import { openRedisLink } from "../../../../src/limits/store/redis/link.ts";
import { errorReplyFailure } from "../../../../src/limits/store/redis/replies.ts";
import {
  decodeRulesAnswer,
  encodeRulesCall,
  forgivenEntry,
  pageOf,
  type RulesAnswer,
  type RulesOperation,
  ruleEntry,
  rulesKeys,
  type WrittenEntry,
} from "../../../../src/limits/store/rules-call.ts";
import { mostOthers, rulesScript } from "../../../../src/limits/store/rules-script.ts";
import { storeScript } from "../../../../src/limits/store/script.ts";
import type { CounterAnswer, Item, ItemAnswer } from "../../../../src/limits/store/script-call.ts";
import { decodeAnswer, encodeCall } from "../../../../src/limits/store/script-call.ts";
import { read } from "../../../docs/markdown.ts";
import { useCleanup } from "../../../support/cleanup.ts";
import { eventually } from "../../../support/eventually.ts";
import { redisNeeded, skipRedis, startRedis } from "../../../support/redis-servers.ts";
import { ruleOf } from "../../../support/rule.ts";
import { scratchFolder } from "../../../support/scratch.ts";
import { itemOf, leaseId } from "../real-script.ts";

const cleanup = useCleanup();
const [, rules = ""] = /^user headgate (on .*)$/m.exec(read("docs/store.md")) ?? [];
const listed = [...rules.matchAll(/ \+(\S+)/g)].map(([, command = ""]) => command);
const gateway = "gateway-aaaa";

describe.skipIf(skipRedis)(`the user in the docs${redisNeeded}`, () => {
  test("may do what the gateway does, and nothing more", async () => {
    const server = cleanup(await startRedis({ config: [`user headgate ${rules}`] }));
    const passwordFile = join(scratchFolder(cleanup), "password");
    await writeFile(passwordFile, "change-me\n");
    const servers = { kind: "one" as const, address: { host: "127.0.0.1", port: server.port } };
    const settings = { servers, database: 1, username: "headgate", passwordFile, tls: null };
    const link = cleanup(openRedisLink(settings, { script: storeScript, readFile: (path) => readFile(path, "utf8") }));
    let isConnected = false;
    link.events = { onConnected: () => (isConnected = true), onDisconnected() {}, onGone() {} };
    server.cli("CONFIG", "RESETSTAT");
    link.open();
    await eventually("it is connected", () => isConnected);
    expect(await identify(link)).toMatchObject({ server: expect.stringMatching(/^(Redis|Valkey) \d/) });
    await askEverything(link);
    await askRules(settings);
    const ran = server
      .cli("INFO", "commandstats")
      .split(/\r?\n/)
      .flatMap((line) => /^cmdstat_([^:]+):/.exec(line)?.[1] ?? [])
      .filter((command) => !["auth", "config|resetstat"].includes(command));
    expect(listed.toSorted()).toEqual(ran.toSorted());
    await expect(call(link, [itemOf({ key: "other:1:{a0}:s/one/client" })])).rejects.toThrow("refused NOPERM");
  });
});

test("a command that the user lacks within the script is a missing permission, as every version says it", () => {
  for (const text of [
    "ERR The user executing the script can't run this command or subcommand script: 59f8, on @user_script:81.",
    "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
    "ERR ACL failure in script: User headgate has no permissions to run the 'zscore' command script: 59f8",
  ]) {
    expect(errorReplyFailure(text).kind).toBe("refused");
  }
  expect(errorReplyFailure("ERR value is not a valid float script: 59f8").kind).toBe("failed");
});

/** Each kind of item, and what becomes of a lease: spent, given back, run out, told. */
async function askEverything(link: StoreLink): Promise<void> {
  const key = "headgate:1:{a0}:s/one/client";
  const ask = async (given: Parameters<typeof itemOf>[0]): Promise<CounterAnswer> => {
    const [answer] = await call(link, [itemOf({ key, limit: 4, ...given })]);
    if (answer?.item !== "counter") throw new Error("not the answer of a counter");
    return answer;
  };
  const id = leaseId(gateway);
  expect(await ask({ id, asked: 4 })).toMatchObject({ granted: 4 });
  const reports = [{ id, granted: 4, spent: 3, ageUs: 1_000 }];
  expect(await ask({ reports })).toMatchObject({ granted: 1 });
  expect(await ask({ asked: 0, told: { units: 6, ageUs: 1_000 } })).toMatchObject({ granted: 0, free: 0 });
  expect(await ask({})).toMatchObject({ granted: 0 });
  // Another key, because nothing of the first one may run out before it has been reported.
  const short = { key: "headgate:1:{a0}:s/short/client", limit: 1, windowUs: 1_000, leaseUs: 1_000 };
  expect(await ask(short)).toMatchObject({ granted: 1 });
  await eventually("the unit has run out", async () => (await ask(short)).granted === 1);
  const list: Item = { item: "gateways", key: "headgate:1:{g}:gateways", gateway, silenceUs: 30_000_000, ageUs: 0 };
  const secret: Item = { item: "secret", key: "headgate:1:{secret}:secret", proposed: "abcd" };
  expect(await call(link, [list, secret])).toEqual([
    { item: "gateways", origin: expect.stringContaining(gateway), gateways: 1 },
    { item: "secret", value: "abcd" },
  ]);
}

/** Rules: one is set, somebody is forgiven, a gateway is there and leaves, and so much is removed that some of it is dropped. */
async function askRules(settings: StoreConnectionSettings): Promise<void> {
  const link = cleanup(openRedisLink(settings, { script: rulesScript, readFile: (path) => readFile(path, "utf8") }));
  let isConnected = false;
  link.events = { onConnected: () => (isConnected = true), onDisconnected() {}, onGone() {} };
  link.open();
  await eventually("it is connected", () => isConnected);
  const keys = rulesKeys("headgate:");
  const wallMs = Date.now();
  const ask = (operation: RulesOperation, known = 0): Promise<RulesAnswer> =>
    new Promise((resolve, reject) =>
      link.call(0, keys, encodeRulesCall(operation, { origin: "o", known, wallMs }), (reply, failure) =>
        failure ? reject(new Error(`${failure.kind} ${failure.detail}`)) : resolve(decodeRulesAnswer(reply)),
      ),
    );
  const name = { kind: "client" as const, value: "192.0.2.1" };
  const removed = (id: string, revision: number, endsMs: number): WrittenEntry => {
    return { name: `r/${id}`, text: "", revision, endsMs };
  };
  const rule = ruleOf("a", name, { endsMs: wallMs + 60_000 });
  await ask({ operation: "write", entries: [ruleEntry({ ...rule, revision: 0 })] });
  await ask({ operation: "write", entries: [forgivenEntry(name, wallMs + 60_000, 0)] });
  const about = { id: gateway, about: "{}", silenceMs: 10_000 };
  const read = { operation: "read", origin: "", version: -1, cursor: "0", present: about } as const;
  expect((await ask(read)).present).toEqual([`${gateway} {}`]);
  // In as many pages as the server likes: while it makes the table of a hash smaller, a page may have one of two entries.
  const names = async (): Promise<readonly string[]> => {
    const found = new Set<string>();
    for (let cursor = "0", isFirst = true; isFirst || cursor !== "0"; isFirst = false) {
      const page = pageOf(await ask({ ...read, cursor }));
      for (const entry of page.entries) found.add(entry.name);
      cursor = page.cursor;
    }
    return [...found].sort();
  };
  expect(await names()).toEqual(["f/client/192.0.2.1", "r/a"]);
  // So many that those nobody needs are dropped.
  for (let at = 0; at < mostOthers; at += 1_000) {
    const entries = Array.from({ length: 1_000 }, (_, i) => removed(`r${at + i}`, i + 1, 1));
    await ask({ operation: "write", entries });
  }
  expect(await names()).toEqual(["f/client/192.0.2.1", "r/a"]);
  expect((await ask({ ...read, present: { ...about, about: "" } })).present).toEqual([]);
}

function identify(link: StoreLink): Promise<StoreIdentity> {
  return new Promise((resolve, reject) =>
    link.identify(0, (identity, failure) => (identity ? resolve(identity) : reject(new Error(failure?.detail)))),
  );
}

function call(link: StoreLink, items: readonly Item[]): Promise<readonly ItemAnswer[]> {
  const { keys, args } = encodeCall(items);
  return new Promise((resolve, reject) =>
    link.call(0, keys, args, (reply, failure) =>
      failure ? reject(new Error(`${failure.kind} ${failure.detail}`)) : resolve(decodeAnswer(reply, items).items),
    ),
  );
}
