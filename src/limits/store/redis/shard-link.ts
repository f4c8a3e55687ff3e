// The link to one server that holds keys, which is the whole store or a shard of a cluster: keeps one connection to it, and
// makes another one after each loss, until it is closed. Calls are sent at once or fail; none is ever sent again but one that
// the server has not run (NOSCRIPT).
import { hash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ignoreError } from "../../../core/failure.ts";
import { bracketed, type HostPort } from "../../../core/ip-address.ts";
import type { CallFailure, StoreEvents, StoreIdentity, StoreLink } from "../../../core/store-link.ts";
import { type Connection, type OnReply, type Opener, openConnection } from "./connection.ts";
import { failureAt, failureOf, isLacking, unreachable, withCommand } from "./replies.ts";

const firstDelayMs = 50;
const longestDelayMs = 1_000;

const closed = unreachable("the connection was closed");

export class ShardLink implements StoreLink {
  readonly isClustered = false;
  readonly number: number;
  readonly shards: readonly number[];
  events: StoreEvents = { onConnected() {}, onDisconnected() {}, onGone() {} };
  readonly #opener: Opener;
  readonly #locate: () => HostPort | Promise<HostPort>;
  readonly #sha: string;
  protected readonly closed = new AbortController();
  #connection: Connection | null = null;
  #delayMs = firstDelayMs;
  /** Why there is no connection. */
  #failure: CallFailure = unreachable("there was no connection yet");
  #wasToldLoss = false;
  #ended: Promise<void> = Promise.resolve();

  constructor(opener: Opener, locate: () => HostPort | Promise<HostPort>, number = 0) {
    this.#opener = opener;
    this.#locate = locate;
    this.number = number;
    this.#sha = hash("sha1", opener.script);
    this.shards = [number];
  }

  get connection(): Connection | null {
    return this.#connection;
  }

  shardOf(): number {
    return this.number;
  }

  anyTagOf(): string {
    return "0";
  }

  open(): void {
    this.#ended = this.#keepConnected();
  }

  async close(): Promise<void> {
    this.closed.abort();
    this.#connection?.drop(closed);
    await this.#ended;
  }

  /** Drops the connection; another one is made as after any loss. */
  reconnect(): void {
    this.#connection?.drop(unreachable("nobody answered"));
  }

  /** `isAsking`: the slot is being moved to this server, which serves its keys only after ASKING. */
  call(_: number, keys: readonly string[], args: readonly string[], answered: OnReply, isAsking = false): void {
    const parameters = [String(keys.length), ...keys, ...args];
    this.#evaluate(parameters, isAsking, (reply, failure, errorReply) => {
      if (errorReply?.startsWith("NOSCRIPT")) this.#loadAndEvaluate(parameters, isAsking, answered);
      else answered(reply, failure, errorReply);
    });
  }

  identify(_: number, identified: (identity: StoreIdentity | null, failure: CallFailure | null) => void): void {
    const connection = this.#connection;
    if (connection === null) {
      queueMicrotask(() => identified(null, this.#failure));
      return;
    }
    identify(connection).then(
      (identity) => identified(identity, null),
      (error) => identified(null, failureAt(connection.address, failureOf(error))),
    );
  }

  #evaluate(parameters: readonly string[], isAsking: boolean, onReply: OnReply, isWhole = false): void {
    const connection = this.#connection;
    if (connection === null) {
      const failure = this.#failure;
      queueMicrotask(() => onReply(null, failure));
      return;
    }
    const { script } = this.#opener;
    if (isAsking) connection.send("asking", [], () => undefined);
    const [command, given] = isWhole ? ["eval", script] : ["evalsha", this.#sha];
    connection.send(command, [given, ...parameters], (reply, failure, errorReply) => {
      if (errorReply?.startsWith("READONLY")) {
        // It was demoted. The name or the sentinels may know another server.
        connection.drop({ kind: "unready", detail: "the server has become a replica" });
      } else if (failure === null) this.#delayMs = firstDelayMs;
      onReply(reply, failure && withCommand(script, failure), errorReply);
    });
  }

  /** The script has not run: the server did not know it, after a restart or SCRIPT FLUSH. */
  #loadAndEvaluate(parameters: readonly string[], isAsking: boolean, answered: OnReply): void {
    let notLoaded: CallFailure | null = null;
    this.#connection?.send("script", ["LOAD", this.#opener.script], (_, failure) => {
      notLoaded = failure;
    });
    this.#evaluate(parameters, isAsking, (reply, failure, errorReply) => {
      // EVAL loads the script, too, but its permission is one for any script.
      if (failure === null || notLoaded === null || !isLacking(notLoaded)) {
        answered(reply, failure && (notLoaded ?? failure), errorReply);
        return;
      }
      const onReply: OnReply = (late, lateFailure, lateError) => {
        answered(late, lateFailure && isLacking(lateFailure) ? notLoaded : lateFailure, lateError);
      };
      this.#evaluate(parameters, isAsking, onReply, true);
    });
  }

  async #keepConnected(): Promise<void> {
    const { signal } = this.closed;
    while (!signal.aborted) {
      try {
        await this.#use(await openConnection("primary", this.#opener, await this.#locate(), signal));
      } catch (error) {
        if (signal.aborted) return;
        this.#onFailure(failureOf(error));
        this.events.onConnectFailed?.(this.number, this.#failure);
      }
      // Between a half and all of the delay, so that many gateways do not come back at once.
      const delayMs = this.#delayMs * (0.5 + Math.random() / 2);
      this.#delayMs = Math.min(this.#delayMs * 2, longestDelayMs);
      await sleep(delayMs, undefined, { signal }).catch(ignoreError);
    }
  }

  /** Resolves when the connection is lost. */
  #use(connection: Connection): Promise<void> {
    return new Promise((resolve) => {
      connection.onLost = (failure) => {
        this.#connection = null;
        this.#wasToldLoss = false;
        this.#onFailure(failure);
        resolve();
      };
      this.#connection = connection;
      if (this.closed.signal.aborted) connection.drop(closed);
      else this.events.onConnected(this.number);
    });
  }

  #onFailure(failure: CallFailure): void {
    this.#failure = failure;
    if (this.#wasToldLoss || this.closed.signal.aborted) return;
    this.#wasToldLoss = true;
    this.events.onDisconnected(this.number, failure);
  }
}

// What a server says about itself: by which the limiter sees that it may have forgotten, and what its operator should
// change.

/** Redis 6 accepts one section a command. */
const sections = ["server", "replication", "memory", "stats", "persistence"];

/** Returns a field of INFO. */
type FieldOf = (name: string) => string | undefined;

/** Rejects with a StoreError. */
async function identify(connection: Connection): Promise<StoreIdentity> {
  const [texts, saved] = await Promise.all([
    Promise.all(sections.map((section) => connection.ask("info", section))),
    connection.ask("config", "GET", "save").catch(() => null),
  ]);
  const text = texts.join("\n");
  const fieldOf: FieldOf = (name) => new RegExp(`^${name}:(.*)$`, "m").exec(text)?.[1];
  const { host, port } = connection.address;
  // Servers that are not Redis may name no run: it may have ended with any connection.
  return {
    epoch: `${fieldOf("run_id") ?? connection.id} ${fieldOf("master_replid") ?? ""}`,
    evictedKeys: Number(fieldOf("evicted_keys") ?? 0),
    server: `${serverName(fieldOf)} at ${bracketed(host)}:${port}`,
    // A server that may not be asked for its save points is taken for one that has some.
    warnings: warningsOf(fieldOf, Array.isArray(saved) && saved[1] === ""),
  };
}

function serverName(fieldOf: FieldOf): string {
  const valkey = fieldOf("valkey_version");
  const version = valkey ?? fieldOf("redis_version") ?? "?";
  return `${valkey === undefined ? "Redis" : "Valkey"} ${version.replace(/[^\w.-]/g, "").slice(0, 40)}`;
}

function warningsOf(fieldOf: FieldOf, hasNoSavePoints: boolean): string[] {
  const warnings: string[] = [];
  const policy = fieldOf("maxmemory_policy") ?? "noeviction";
  if (Number(fieldOf("maxmemory") ?? 0) > 0 && policy !== "noeviction") {
    warnings.push(`maxmemory-policy is ${policy.replace(/[^\w-]/g, "").slice(0, 40)}: it can forget quotas`);
  }
  if (hasNoSavePoints && fieldOf("aof_enabled") !== "1" && fieldOf("connected_slaves") === "0") {
    warnings.push("it has no persistence and no replica: a restart forgets what was counted");
  }
  const [major = 0, minor = 0] = (fieldOf("redis_version") ?? "").split(".").map(Number);
  if (major < 6 || (major === 6 && minor < 2)) warnings.push("versions below 6.2 are not supported");
  if (fieldOf("role") === "slave") warnings.push("it is a replica: nothing can be counted there");
  return warnings;
}
