// `headgate check --online`: asks the servers of the store what a gateway would, and says what they lack. It writes no key of
// a gateway. Its own keys expire within a second, except one, which expires within an hour. It prints no secret.
import { randomBytes } from "node:crypto";
import { readRegularFile } from "../config/files.ts";
import type { Settings } from "../core/settings.ts";
import type { CallFailure, StoreIdentity, StoreLink } from "../core/store-link.ts";
import { openRedisLink } from "../limits/store/redis/link.ts";
import { encodeRulesCall } from "../limits/store/rules-call.ts";
import { rulesScript } from "../limits/store/rules-script.ts";
import { storeScript } from "../limits/store/script.ts";
import {
  type CounterItem,
  counterStoreKey,
  decodedOrNull,
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
  const link = openRedisLink(connection, { script, readFile: readRegularFile, connectTimeoutMs });
  const failures = await firstAttempts(link);
  const found = [...failures.values()].flatMap((failure) => (failure === null ? [] : [missing(failure.detail)]));
  for (const shard of link.shards.filter((shard) => failures.get(shard) === null)) {
    // A new connection ends all calls that have no answer.
    const timer = setInterval(() => link.reconnect(shard), connectTimeoutMs);
    found.push(...(await checkShard(link, shard, store.prefix)));
    clearInterval(timer);
  }
  await link.close();
  return found;
}

/** Both scripts, because a link has one. What is written of rules expires at once. */
const script = `local function rules() ${rulesScript} end
if ARGV[1] == 'write' or ARGV[1] == 'read' then
  local answer = rules()
  -- The script itself runs these only if there is much to drop.
  redis.call('HGETALL', KEYS[1])
  redis.call('HDEL', KEYS[1], '.floor')
  redis.call('PEXPIRE', KEYS[1], 1000)
  return answer
end
${storeScript}`;

const missing = (text: string): Finding => ({ kind: "missing", text });
const warning = (server: string, text: string): Finding => ({ kind: "warning", text: `${server}: ${text}` });

/** Resolves with why each server could not be connected, by shard; null: it was. The key is null if no server is known. */
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
  if (identity === null) return [missing(unidentified?.detail ?? "")];
  const { server, warnings } = identity;
  const found = warnings.map((text) => warning(server, text));
  const tag = link.anyTagOf(shard) ?? "check";
  for (const items of probes(prefix, tag, link.isClustered ? tag : "other")) {
    const { keys, args } = encodeCall(items);
    const [reply, failure] = await call(link, shard, keys, args);
    const detail = failure?.detail ?? (decodedOrNull(reply, items) ? null : "its answer is not the script's");
    const hint = link.isClustered ? "" : " (it belongs to a cluster: see counters.redis.cluster)";
    if (detail !== null)
      return [...found, missing(`${server}: ${detail.replace(/^(MOVED|CLUSTERDOWN|CROSSSLOT) .*/, `$&${hint}`)}`)];
  }
  const lacking = await failureOfRules(link, shard, (name) => storeKeyOf(prefix, tag, name));
  if (lacking) found.push(warning(server, `rules and forgiveness cannot be shared: ${lacking.detail}`));
  return [...found, { kind: "usable", text: `${server} can be used` }];
}

/** Resolves with why rules cannot be written and read; null: they can. */
async function failureOfRules(link: StoreLink, shard: number, keyOf: (name: string) => string) {
  const name = `check/${randomBytes(6).toString("hex")}`;
  const keys = [keyOf(`${name}/entries`), keyOf(`${name}/present`)];
  const caller = { origin: "check", known: 0, wallMs: 0 };
  const entry = { name: "f/check", text: "", endsMs: 1, revision: 0 };
  const present = { id: "check", about: "{}", silenceMs: 1000 };
  const read = { operation: "read", origin: "", version: -1, cursor: "0", present } as const;
  for (const operation of [{ operation: "write", entries: [entry] }, read] as const) {
    const [, failure] = await call(link, shard, keys, encodeRulesCall(operation, caller));
    if (failure !== null) return failure;
  }
  return null;
}

function identify(link: StoreLink, shard: number) {
  return new Promise<[StoreIdentity | null, CallFailure | null]>((resolve) => {
    link.identify(shard, (...answer) => resolve(answer));
  });
}

function call(link: StoreLink, shard: number, keys: readonly string[], args: readonly string[]) {
  return new Promise<[unknown, CallFailure | null]>((resolve) => {
    link.call(shard, keys, args, (...answer) => resolve(answer));
  });
}

/** Calls in which the script runs its commands: units are granted, refused, told and returned, and a counter is forgiven. */
function* probes(prefix: string, tag: string, otherTag: string): Generator<readonly Item[]> {
  const gateway = randomBytes(gatewayLength).toString("hex").slice(0, gatewayLength);
  const id = `${gateway}${"-".repeat(threadLength)}1`;
  const name = `check/${gateway}`;
  const sliding: CounterItem = {
    ...{ item: "sliding", key: counterStoreKey(prefix, tag, name, 0), limit: 2, windowUs: 500_000, leaseUs: 500_000 },
    ...{ untilUs: 0, keepUs: 0, step: 1, asked: 2, ahead: 0, id, reports: [], told: null },
  };
  const markKey = markKeyOf(prefix, tag, name);
  // The lease has ended when the next call comes.
  const brief = { ...sliding, key: counterStoreKey(prefix, otherTag, name, 0), windowUs: 1, leaseUs: 1 };
  const told = { units: 1, ageUs: 0, forgivenUntil: 0, markKey };
  yield [sliding, brief];
  yield [{ ...sliding, id: `${id}1`, reports: [{ id, granted: 2, spent: 1, ageUs: 0 }], told }, brief];
  yield [{ ...sliding, id: `${id}2` }];
  const secret = { item: "secret", key: markKey, proposed: "00" } as const;
  yield [secret, { item: "forget", key: sliding.key, markKey, seq: 1, keepMs: 500 }];
  yield [{ item: "gateways", key: storeKeyOf(prefix, tag, `${name}/gateways`), gateway, silenceUs: 500_000, ageUs: 0 }];
}
