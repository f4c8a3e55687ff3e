// The link to one server that holds keys: keeps one connection to it, and makes another one after each loss, until it is
// closed. Calls are sent at once or fail; none is ever sent again but one that the server has not run (NOSCRIPT).
import { hash } from "node:crypto";
import type { CallFailure, StoreIdentity } from "../core/shared-store.ts";
import { StoreError, unreachable } from "./call-failure.ts";
import type { Connection, OnReply } from "./connection.ts";
import { identify } from "./identity.ts";

const firstDelayMs = 50;
const longestDelayMs = 1_000;

export interface ShardLinkEvents {
  onConnected(shard: number): void;
  onDisconnected(shard: number, failure: CallFailure): void;
  onConnectFailed?(shard: number, failure: CallFailure): void;
}

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
  readonly #events: ShardLinkEvents;
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
    events: ShardLinkEvents,
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
      (error) => identified(null, failureOf(error)),
    );
  }

  #evaluate(parameters: readonly string[], isAsking: boolean, onReply: OnReply): void {
    const connection = this.#connection;
    if (connection === null) {
      const failure = this.#failure;
      queueMicrotask(() => onReply(null, failure));
      return;
    }
    if (isAsking) connection.send("asking", [], () => undefined);
    connection.send("evalsha", [this.#script.sha, ...parameters], (reply, failure, errorReply) => {
      if (errorReply?.startsWith("READONLY")) {
        // It was demoted. The name or the sentinels may know another server.
        connection.drop({ kind: "unready", detail: "the server has become a replica" });
      } else if (failure === null) this.#delayMs = firstDelayMs;
      onReply(reply, failure, errorReply);
    });
  }

  /** The script has not run: the server did not know it, after a restart or SCRIPT FLUSH. */
  #loadAndEvaluate(parameters: readonly string[], isAsking: boolean, answered: OnReply): void {
    let notLoaded: CallFailure | null = null;
    this.#connection?.send("script", ["LOAD", this.#script.text], (_, failure) => {
      notLoaded = failure;
    });
    this.#evaluate(parameters, isAsking, (reply, failure, errorReply) => {
      answered(reply, failure && (notLoaded ?? failure), errorReply);
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
    this.#events.onConnected(this.number);
  }

  #onConnectFailed(failure: CallFailure): void {
    this.#onFailure(failure);
    this.#events.onConnectFailed?.(this.number, failure);
  }

  #onFailure(failure: CallFailure): void {
    this.#failure = failure;
    // Between a half and all of the delay, so that many gateways do not come back at once.
    const delayMs = this.#delayMs * (0.5 + Math.random() / 2);
    this.#delayMs = Math.min(this.#delayMs * 2, longestDelayMs);
    this.#retry = setTimeout(() => this.open(), delayMs);
    if (this.#wasToldLoss) return;
    this.#wasToldLoss = true;
    this.#events.onDisconnected(this.number, failure);
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
