// A link whose events are kept, and whose calls are promises.
import { readFile } from "node:fs/promises";
import type {
  CallFailure,
  StoreConnectionSettings,
  StoreIdentity,
  StoreLink,
} from "../../../../src/core/store-link.ts";
import { openRedisLink } from "../../../../src/limits/store/redis/link.ts";
import type { Cleanup } from "../../../support/cleanup.ts";
import { eventually, within } from "../../../support/eventually.ts";

export interface Answer {
  readonly reply: unknown;
  readonly failure: CallFailure | null;
}

export interface Identified {
  readonly identity: StoreIdentity | null;
  readonly failure: CallFailure | null;
}

export interface WatchedLink {
  readonly link: StoreLink;
  /** Such as "connected 0", "unreachable 0", "gone 0". */
  readonly seen: string[];
  /** Attempts to connect, such as "refused 0". */
  readonly failedAttempts: string[];
  /** Of shard 0, with a key of its tag. */
  call(...args: string[]): Promise<Answer>;
  callOn(shard: number, key: string, ...args: string[]): Promise<Answer>;
  identify(shard?: number): Promise<Identified>;
  /** Resolves when it has been connected so often. */
  connected(times?: number): Promise<void>;
}

/** The first argument says what to do with the first key. */
const script = `
if ARGV[1] == 'set' then return redis.call('SET', KEYS[1], ARGV[2]) end
if ARGV[1] == 'count' then return redis.call('INCR', KEYS[1]) end
if ARGV[1] == 'push' then return redis.call('LPUSH', KEYS[1], 'x') end
return {1700000000000000, tonumber(ARGV[1]), KEYS[1]}`;

export function settingsOf(port: number, more: Partial<StoreConnectionSettings> = {}): StoreConnectionSettings {
  const servers = { kind: "one" as const, address: { host: "127.0.0.1", port } };
  return { servers, database: 0, username: null, passwordFile: null, tls: null, ...more };
}

/** `connectTimeoutMs`: by default longer than this process may stand still. */
export function openWatched(
  cleanup: Cleanup,
  settings: StoreConnectionSettings,
  connectTimeoutMs = 5_000,
): WatchedLink {
  const link = openRedisLink(settings, { script, readFile: (path) => readFile(path, "utf8"), connectTimeoutMs });
  const seen: string[] = [];
  const failedAttempts: string[] = [];
  link.events = {
    onConnected: (shard) => seen.push(`connected ${shard}`),
    onDisconnected: (shard, { kind }) => seen.push(`${kind} ${shard}`),
    onConnectFailed: (shard, { kind }) => failedAttempts.push(`${kind} ${shard}`),
    onGone: (shard) => seen.push(`gone ${shard}`),
  };
  cleanup(() => link.close());
  link.open();
  const callOn = (shard: number, key: string, ...args: string[]): Promise<Answer> =>
    within(
      "an answer",
      new Promise((resolve) => link.call(shard, [key], args, (reply, failure) => resolve({ reply, failure }))),
    );
  const identify = (shard = 0): Promise<Identified> =>
    within(
      "an identity",
      new Promise((resolve) => link.identify(shard, (identity, failure) => resolve({ identity, failure }))),
    );
  return {
    link,
    seen,
    failedAttempts,
    call: (...args) => callOn(0, "{0}k", ...args),
    callOn,
    identify,
    connected: async (times = 1) => {
      const isConnected = (): boolean => seen.filter((event) => event.startsWith("connected")).length >= times;
      try {
        await eventually(`the link is connected ${times} times`, isConnected, 20_000);
      } catch (error) {
        const { failure } = await callOn(0, "{0}k", "1");
        throw new Error(`only ${seen.join(", ")}; ${failure?.detail}`, { cause: error });
      }
    },
  };
}
