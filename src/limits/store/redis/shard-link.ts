// The link to one server that holds keys: keeps one connection to it, and makes another one after each loss, until it is
// closed. Calls are sent at once or fail; none is ever sent again but one that the server has not run (NOSCRIPT).
import { hash } from "node:crypto";
import { bracketed, type HostPort } from "../../../core/ip-address.ts";
import type { CallFailure, StoreEvents, StoreIdentity } from "../../../core/store-link.ts";
import { type Connection, type OnReply, type Opener, openSentinel } from "./connection.ts";
import { failureAt, isLacking, StoreError, unreachable, withCommand } from "./replies.ts";

const firstDelayMs = 50;
const longestDelayMs = 1_000;

/** What happens to the connections of a link's shards. */
export type ShardEvents = Omit<StoreEvents, "onGone">;

export interface Script {
  readonly text: string;
  readonly sha: string;
}

export function namedScript(text: string): Script {
  return { text, sha: hash("sha1", text) };
}

export class ShardLink {
  readonly number: number;
  readonly #connect: (signal: AbortSignal) => Promise<Connection>;
  readonly #script: Script;
  readonly #events: () => ShardEvents;
  #connection: Connection | null = null;
  #attempt: AbortController | null = null;
  #retry: NodeJS.Timeout | null = null;
  #delayMs = firstDelayMs;
  #isClosed = false;
  /** Why there is no connection. */
  #failure: CallFailure = unreachable("there was no connection yet");
  #wasToldLoss = false;
  #ended: Promise<void> = Promise.resolve();

  constructor(
    number: number,
    connect: (signal: AbortSignal) => Promise<Connection>,
    script: Script,
    events: () => ShardEvents,
  ) {
    this.number = number;
    this.#connect = connect;
    this.#script = script;
    this.#events = events;
  }

  get connection(): Connection | null {
    return this.#connection;
  }

  open(): void {
    this.#ended = this.#begin();
  }

  /** Resolves when nothing is left of it. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#attempt?.abort();
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.#retry = null;
    const connection = this.#connection;
    if (connection !== null) {
      const { promise, resolve } = Promise.withResolvers<void>();
      connection.onLost = () => resolve();
      this.#connection = null;
      this.#failure = unreachable("the connection was closed");
      connection.drop(this.#failure);
      await promise;
    }
    await this.#ended;
  }

  /** Drops the connection; another one is made as after any loss. */
  reconnect(failure: CallFailure = unreachable("nobody answered")): void {
    this.#connection?.drop(failure);
  }

  /** `isAsking`: the slot is being moved to this server, which serves its keys only after ASKING. */
  call(keys: readonly string[], args: readonly string[], isAsking: boolean, answered: OnReply): void {
    const parameters = [String(keys.length), ...keys, ...args];
    this.#evaluate(parameters, isAsking, (reply, failure, errorReply) => {
      if (errorReply?.startsWith("NOSCRIPT")) this.#loadAndEvaluate(parameters, isAsking, answered);
      else answered(reply, failure, errorReply);
    });
  }

  identify(identified: (identity: StoreIdentity | null, failure: CallFailure | null) => void): void {
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
    if (isAsking) connection.send("asking", [], () => undefined);
    const [command, script] = isWhole ? ["eval", this.#script.text] : ["evalsha", this.#script.sha];
    connection.send(command, [script, ...parameters], (reply, failure, errorReply) => {
      if (errorReply?.startsWith("READONLY")) {
        // It was demoted. The name or the sentinels may know another server.
        connection.drop({ kind: "unready", detail: "the server has become a replica" });
      } else if (failure === null) this.#delayMs = firstDelayMs;
      onReply(reply, failure && withCommand(this.#script.text, failure), errorReply);
    });
  }

  /** The script has not run: the server did not know it, after a restart or SCRIPT FLUSH. */
  #loadAndEvaluate(parameters: readonly string[], isAsking: boolean, answered: OnReply): void {
    let notLoaded: CallFailure | null = null;
    this.#connection?.send("script", ["LOAD", this.#script.text], (_, failure) => {
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

  async #begin(): Promise<void> {
    this.#retry = null;
    const attempt = new AbortController();
    this.#attempt = attempt;
    try {
      const connection = await this.#connect(attempt.signal);
      if (this.#isClosed) await lost(connection);
      else this.#use(connection);
    } catch (error) {
      if (!this.#isClosed) this.#onConnectFailed(failureOf(error));
    } finally {
      this.#attempt = null;
    }
  }

  #use(connection: Connection): void {
    this.#connection = connection;
    connection.onLost = (failure) => {
      this.#connection = null;
      this.#wasToldLoss = false;
      this.#onFailure(failure);
    };
    this.#events().onConnected(this.number);
  }

  #onConnectFailed(failure: CallFailure): void {
    this.#onFailure(failure);
    this.#events().onConnectFailed?.(this.number, failure);
  }

  #onFailure(failure: CallFailure): void {
    this.#failure = failure;
    // Between a half and all of the delay, so that many gateways do not come back at once.
    const delayMs = this.#delayMs * (0.5 + Math.random() / 2);
    this.#delayMs = Math.min(this.#delayMs * 2, longestDelayMs);
    this.#retry = setTimeout(() => this.open(), delayMs);
    if (this.#wasToldLoss) return;
    this.#wasToldLoss = true;
    this.#events().onDisconnected(this.number, failure);
  }
}

/** Resolves when the connection is no more. */
function lost(connection: Connection): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  connection.onLost = () => resolve();
  connection.drop(unreachable("the connection was closed"));
  return promise;
}

export function failureOf(error: unknown): CallFailure {
  return error instanceof StoreError ? error.failure : { kind: "failed", detail: String(error).slice(0, 200) };
}

// Asks the sentinels which server is the primary now. A sentinel that is cut off from the others may name an old one, so
// a majority is asked and the newest answer counts.

interface Named {
  readonly address: HostPort;
  /** Grows with each promotion. */
  readonly epoch: number;
}

export class Sentinels {
  readonly #opener: Opener;
  readonly #name: string;
  readonly #addresses: readonly HostPort[];
  readonly #connections = new Map<HostPort, Connection>();
  readonly #closed = new AbortController();

  constructor(opener: Opener, name: string, addresses: readonly HostPort[]) {
    this.#opener = opener;
    this.#name = name;
    this.#addresses = addresses;
  }

  /** Rejects with a StoreError. */
  async primary(): Promise<HostPort> {
    const asked = this.#addresses.map((address) => this.#ask(address));
    const majority = Math.floor(asked.length / 2) + 1;
    const { answers, failure } = await firstOf(asked, majority);
    const [newest] = answers.sort((a, b) => b.epoch - a.epoch);
    if (newest !== undefined) return newest.address;
    throw new StoreError(failure === null ? unreachable("no sentinel is configured") : failure);
  }

  close(): void {
    this.#closed.abort();
    for (const connection of this.#connections.values()) connection.drop(unreachable("the connection was closed"));
    this.#connections.clear();
  }

  async #ask(address: HostPort): Promise<Named> {
    const connection = await this.#connectionTo(address);
    // During a failover, a sentinel names the new primary in the one answer before it does in the other, which has the
    // epoch.
    const [named, about] = await Promise.all([
      this.#answerOf(connection, "GET-MASTER-ADDR-BY-NAME"),
      this.#answerOf(connection, "MASTER"),
    ]);
    const [host, port]: unknown[] = Array.isArray(named) ? named : [];
    const fields: unknown[] = Array.isArray(about) ? about : [];
    const epoch = Number(fields[fields.indexOf("config-epoch") + 1]) || 0;
    if (typeof host === "string" && host !== "" && Number(port) > 0 && Number(port) < 65_536) {
      return { address: { host, port: Number(port) }, epoch };
    }
    throw new StoreError(failureAt(address, { kind: "failed", detail: `it names no primary of ${this.#name}` }));
  }

  async #answerOf(connection: Connection, question: string): Promise<unknown> {
    try {
      return await connection.askWithin(this.#opener.connectTimeoutMs, "sentinel", question, this.#name);
    } catch (error) {
      connection.drop(unreachable("the sentinel does not answer"));
      throw new StoreError(failureAt(connection.address, failureOf(error)));
    }
  }

  async #connectionTo(address: HostPort): Promise<Connection> {
    const known = this.#connections.get(address);
    if (known !== undefined && known.lost === null) return known;
    const connection = await openSentinel(this.#opener, address, this.#closed.signal);
    // Another question may have opened one meanwhile.
    this.#connections.get(address)?.drop(unreachable("not needed any more"));
    this.#connections.set(address, connection);
    return connection;
  }
}

interface Answers {
  readonly answers: Named[];
  readonly failure: StoreError["failure"] | null;
}

/** Resolves when so many have answered, or all have ended. */
function firstOf(asked: readonly Promise<Named>[], enough: number): Promise<Answers> {
  const answers: Named[] = [];
  let failure: StoreError["failure"] | null = null;
  let ended = 0;
  return new Promise((resolve) => {
    const end = (): void => {
      ended += 1;
      if (ended === asked.length || answers.length >= enough) resolve({ answers: [...answers], failure });
    };
    if (asked.length === 0) resolve({ answers, failure });
    for (const promise of asked) {
      promise
        .then(
          (answer) => void answers.push(answer),
          (error) => {
            if (error instanceof StoreError)
              failure ??= { ...error.failure, detail: `sentinel: ${error.failure.detail}` };
          },
        )
        .finally(end);
    }
  });
}

// What a server says about itself: by which the limiter sees that it may have forgotten, and what its operator should
// change.

type Fields = ReadonlyMap<string, string>;

/** Redis 6 accepts one section a command. */
const sections = ["server", "replication", "memory", "stats", "persistence"];
const oldest = [6, 2] as const;

/** Rejects with a StoreError. */
async function identify(connection: Connection): Promise<StoreIdentity> {
  const [texts, saved] = await Promise.all([
    Promise.all(sections.map((section) => connection.ask("info", section))),
    connection.ask("config", "GET", "save").catch(() => null),
  ]);
  const fields = fieldsOf(texts.join("\n"));
  // Servers that are not Redis may name no run: it may have ended with any connection.
  return {
    epoch: `${fields.get("run_id") ?? connection.id} ${fields.get("master_replid") ?? ""}`,
    evictedKeys: Number(fields.get("evicted_keys") ?? 0),
    server: `${serverName(fields)} at ${bracketed(connection.address.host)}:${connection.address.port}`,
    warnings: warningsOf(fields, savePoints(saved)),
  };
}

function fieldsOf(text: string): Fields {
  const lines = text.split("\n").map((line) => line.trim());
  return new Map(
    lines
      .filter((line) => !line.startsWith("#") && line.includes(":"))
      .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]),
  );
}

function serverName(fields: Fields): string {
  const valkey = fields.get("valkey_version");
  const [name, version] = valkey === undefined ? ["Redis", fields.get("redis_version") ?? "?"] : ["Valkey", valkey];
  return `${name} ${version.replace(/[^\w.-]/g, "").slice(0, 40)}`;
}

/** Null: the server does not say. */
function savePoints(reply: unknown): string | null {
  return Array.isArray(reply) && typeof reply[1] === "string" ? reply[1] : null;
}

function warningsOf(fields: Fields, savePoints: string | null): string[] {
  const warnings: string[] = [];
  const policy = fields.get("maxmemory_policy") ?? "noeviction";
  if (Number(fields.get("maxmemory") ?? 0) > 0 && policy !== "noeviction") {
    warnings.push(`maxmemory-policy is ${policy.replace(/[^\w-]/g, "").slice(0, 40)}: it can forget quotas`);
  }
  const isPersistent = fields.get("aof_enabled") === "1" || savePoints !== "";
  if (!isPersistent && fields.get("connected_slaves") === "0") {
    warnings.push("it has no persistence and no replica: a restart forgets what was counted");
  }
  if (isTooOld(fields.get("redis_version") ?? "")) warnings.push("versions below 6.2 are not supported");
  if (fields.get("role") === "slave") warnings.push("it is a replica: nothing can be counted there");
  return warnings;
}

function isTooOld(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major < oldest[0] || (major === oldest[0] && minor < oldest[1]);
}
