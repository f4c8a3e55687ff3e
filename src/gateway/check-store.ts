// `headgate check --online`: asks the servers of the store what a gateway would, and says what they lack. It writes keys of
// its own alone, which expire within a second, and one within an hour. It prints no secret.
import { randomBytes } from "node:crypto";
import { readRegularFile } from "../config/files.ts";
import type { Settings } from "../core/settings.ts";
import type { CallFailure, StoreIdentity, StoreLink } from "../core/store-link.ts";
import { openRedisLink } from "../limits/store/redis/link.ts";
import { storeScript } from "../limits/store/script.ts";
import {
  type CounterItem,
  counterStoreKey,
  decodeAnswer,
  encodeCall,
  gatewayLength,
  type Item,
  markKeyOf,
  storeKeyOf,
  threadLength,
} from "../limits/store/script-call.ts";

/** For a slow network; a gateway that starts gives a server one second. */
const connectTimeoutMs = 3_000;
/** For all servers together. */
const patienceMs = 10_000;

interface Finding {
  /** `missing`: the gateway cannot share its limits through this server. */
  readonly kind: "usable" | "warning" | "missing";
  readonly text: string;
}

/** Returns at least one finding for each server. */
export async function checkStore(settings: NonNullable<Settings["counters"]["redis"]>): Promise<Finding[]> {
  const { connection, store } = settings;
  const link = openRedisLink(connection, { script: storeScript, readFile: readRegularFile, connectTimeoutMs });
  const failures = await firstAttempts(link);
  const found: Finding[] = [];
  for (const [shard, failure] of [...failures]) {
    if (failure !== null) found.push(missing(placeOf(link, shard), failure));
    else if (shard !== null) found.push(...(await checkShard(link, shard, store.prefix)));
  }
  await link.close();
  return found;
}

function placeOf({ isClustered }: StoreLink, shard: number | null): string {
  return shard === null || !isClustered ? "the store" : `server ${shard} of the store`;
}

const missing = (where: string, { detail }: CallFailure): Finding => ({ kind: "missing", text: `${where}: ${detail}` });

/** Resolves with why each known server could not be connected; null: it was. Without a known one, the key is null. */
function firstAttempts(link: StoreLink): Promise<ReadonlyMap<number | null, CallFailure | null>> {
  const ended = new Map<number | null, CallFailure | null>();
  const { promise, resolve } = Promise.withResolvers<typeof ended>();
  const timer = setTimeout(() => resolve(ended), patienceMs);
  const end = (shard: number | null, failure: CallFailure | null): void => {
    if (!ended.has(shard)) ended.set(shard, failure);
    if (!ended.has(null) && !link.shards.every((each) => ended.has(each))) return;
    clearTimeout(timer);
    resolve(ended);
  };
  link.events = {
    onConnected: (shard) => end(shard, null),
    onConnectFailed: end,
    onDisconnected() {},
    onGone() {},
  };
  link.open();
  return promise;
}

async function checkShard(link: StoreLink, shard: number, prefix: string): Promise<Finding[]> {
  const [identity, unidentified] = await identify(link, shard);
  const where = identity?.server ?? placeOf(link, shard);
  if (unidentified !== null) return [missing(where, unidentified)];
  const warnings = (identity?.warnings ?? []).map((text): Finding => ({ kind: "warning", text: `${where}: ${text}` }));
  for (const items of probes(prefix, link.anyTagOf(shard) ?? "check")) {
    const failure = await call(link, shard, items);
    if (failure !== null) return [...warnings, missing(where, failure)];
  }
  return [...warnings, { kind: "usable", text: `${where} can be used` }];
}

function identify(link: StoreLink, shard: number) {
  return new Promise<[StoreIdentity | null, CallFailure | null]>((resolve) => {
    link.identify(shard, (...answer) => resolve(answer));
  });
}

function call(link: StoreLink, shard: number, items: readonly Item[]): Promise<CallFailure | null> {
  const { keys, args } = encodeCall(items);
  return new Promise((resolve) => {
    link.call(shard, keys, args, (reply, failure) => {
      if (failure === null) decodeAnswer(reply, items);
      resolve(failure);
    });
  });
}

/** Calls in which the script runs its commands: units are granted, refused, told and returned, and a counter is forgiven. */
function* probes(prefix: string, tag: string): Generator<readonly Item[]> {
  const gateway = randomBytes(gatewayLength).toString("hex").slice(0, gatewayLength);
  const id = `${gateway}${"-".repeat(threadLength)}1`;
  const name = `check/${gateway}`;
  const sliding: CounterItem = {
    ...{ item: "sliding", key: counterStoreKey(prefix, tag, name, 0), limit: 2, windowUs: 500_000, leaseUs: 500_000 },
    ...{ untilUs: 0, keepUs: 0, step: 1, needed: 2, wanted: 2, id, reports: [], told: null },
  };
  const markKey = markKeyOf(prefix, tag, name);
  const told = { units: 1, ageUs: 0, forgivenUntil: 0, markKey };
  yield [sliding];
  yield [{ ...sliding, id: `${id}1`, reports: [{ id, granted: 2, spent: 1, ageUs: 0 }], told }];
  yield [{ ...sliding, id: `${id}2` }];
  yield [{ item: "forget", key: sliding.key, markKey, seq: 1, keepMs: 500 }];
  yield [{ item: "gateways", key: storeKeyOf(prefix, tag, `${name}/gateways`), gateway, silenceUs: 500_000, ageUs: 0 }];
}
