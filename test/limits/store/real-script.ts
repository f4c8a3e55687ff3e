// The script on a real server, as tests call it: with the server's clock, or with one of the test's own.
import { afterAll, beforeAll, beforeEach, expect } from "vitest";
import { storeScript } from "../../../src/limits/store/script.ts";
import type {
  CounterAnswer,
  CounterItem,
  EqualRequests,
  Item,
  ScriptAnswer,
  Told,
} from "../../../src/limits/store/script-call.ts";
import { decodeAnswer, encodeCall } from "../../../src/limits/store/script-call.ts";
import { ScriptModel } from "../../simulation/script-model.ts";
import { RedisClient } from "../../support/redis-client.ts";
import { type RedisServer, startRedis } from "../../support/redis-servers.ts";

/**
 * The server's TIME cannot be set. A copy of the script reads it from the last argument instead, and drops what expires by
 * it; the server's own clock expires nothing, however long a test takes. What gateways send has no such argument.
 */
const readsServer = "redis.call('TIME')";
const lastsUntil = /^.*\bredis\.call\('PEXPIRE', .*\)$/gm;
const clockedScript = `
local clock = table.remove(ARGV)
for i = 1, #KEYS do
  local expiry = redis.call('TYPE', KEYS[i]).ok == 'zset' and redis.call('ZSCORE', KEYS[i], 'expiry')
  if expiry and -expiry <= tonumber(clock) then redis.call('DEL', KEYS[i]) end
end
${storeScript.replace(lastsUntil, "").replace(readsServer, "{string.sub(clock, 1, -7), string.sub(clock, -6)}")}`;

export class RealScript {
  readonly client: RedisClient;
  readonly #sha: string;
  readonly #clockedSha: string;

  private constructor(client: RedisClient, shas: readonly [string, string]) {
    this.client = client;
    [this.#sha, this.#clockedSha] = shas;
  }

  static async open(port: number): Promise<RealScript> {
    expect(storeScript.split(readsServer)).toHaveLength(2);
    expect(clockedScript).not.toMatch(/EXPIRE|EX'|PX'/);
    const client = await RedisClient.open(port);
    const load = async (text: string): Promise<string> => String(await client.ask("SCRIPT", "LOAD", text));
    return new RealScript(client, [await load(storeScript), await load(clockedScript)]);
  }

  /** By the server's clock. */
  async call(items: readonly Item[], requests: readonly EqualRequests[] = []): Promise<ScriptAnswer> {
    const { keys, args } = encodeCall(items, requests);
    return decodeAnswer(await this.client.ask("EVALSHA", this.#sha, keys.length, ...keys, ...args), items, requests);
  }

  /** What counts under a key, by what it says and by what is in it, which must be the same. */
  async unitsOf(key: string): Promise<number> {
    const values = (await this.client.ask("ZRANGE", key, 0, -1, "WITHSCORES")) as string[];
    let [said, summed] = [0, 0];
    for (let i = 0; i < values.length; i += 2) {
      const [member = "", score] = [values[i], Number(values[i + 1])];
      if (member === "units") said = 0 - score;
      else if (member.startsWith("=")) summed += score - 4e15;
      else if (score > 0) summed += Number(member.split("/")[1]);
    }
    expect(said).toBe(summed);
    return summed;
  }

  /** By a clock of the test. */
  async callAt(timeUs: number, items: readonly Item[], requests: readonly EqualRequests[] = []): Promise<ScriptAnswer> {
    const { keys, args } = encodeCall(items, requests);
    const reply = await this.client.ask("EVALSHA", this.#clockedSha, keys.length, ...keys, ...args, timeUs);
    return decodeAnswer(reply, items, requests);
  }
}

/** `told`: by a thread that knows of no forgiveness, unless it says so. */
export type GivenItem = Omit<Partial<CounterItem>, "told"> & {
  readonly told?: (Pick<Told, "units" | "ageUs"> & Partial<Told>) | null;
};

export const aMark = "headgate:1:{a0}:forgiven/s/default/address";

/** An item with what matters to a test; the rest is what a request of a sliding window asks. */
export function itemOf(given: GivenItem): CounterItem {
  return {
    item: "sliding",
    key: "headgate:1:{a0}:s/default/address",
    limit: 3,
    windowUs: given.item === undefined || given.item === "sliding" ? 60_000_000 : 0,
    untilUs: 0,
    keepUs: 0,
    leaseUs: 15_000,
    step: 1,
    asked: 1,
    ahead: 0,
    id: leaseId("gateway-aaaa"),
    reports: [],
    ...given,
    told: given.told ? { forgivenUntil: 0, markKey: aMark, ...given.told } : null,
  };
}

let leases = 0;

export function leaseId(gateway: string): string {
  leases += 1;
  return `${gateway}thread-aaa${leases}`;
}

export function counterOf(answer: ScriptAnswer, at = 0): CounterAnswer {
  const item = answer.items[at];
  if (item?.item !== "counter") throw new Error("not the answer of a counter");
  return item;
}

/** Starts a server for the tests of a block, and ends it after them. */
export function useRealScript(opened: (script: RealScript) => void): void {
  let server: RedisServer;
  let script: RealScript;
  beforeAll(async () => {
    server = await startRedis();
    script = await RealScript.open(server.port);
    opened(script);
  });
  afterAll(async () => {
    script.client.close();
    await server.stop();
  });
}

export const startUs = 1_800_000_000_000_000;

/** The script and its model, by one clock of the test. */
export class ScriptAndModel {
  readonly script: RealScript;
  timeUs = startUs;
  readonly #model = new ScriptModel(() => this.timeUs);

  constructor(script: RealScript) {
    this.script = script;
  }

  /** The answers of the script and of its model are the same. */
  async call(items: readonly Item[], requests: readonly EqualRequests[] = []): Promise<ScriptAnswer> {
    const expected = this.#model.call(items, requests);
    const answer = await this.script.callAt(this.timeUs, items, requests);
    expect(answer).toEqual(expected);
    return answer;
  }
}

/** Starts a server for the tests of a block, and ends it after them. Each test begins with an empty one, and a new model. */
export function useScriptAndModel(emptied: (both: ScriptAndModel) => void): void {
  let script: RealScript;
  useRealScript((opened) => {
    script = opened;
  });
  beforeEach(async () => {
    await script.client.ask("FLUSHALL");
    emptied(new ScriptAndModel(script));
  });
}
