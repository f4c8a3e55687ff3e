// Asks the sentinels which server is the primary now. A sentinel that is cut off from the others may name an old one, so
// a majority is asked and the newest answer counts.
import type { HostPort } from "../core/host-port.ts";
import { answerWithin } from "./answer-within.ts";
import { StoreError, unreachable } from "./call-failure.ts";
import type { Connection } from "./connection.ts";
import { type Opener, openSentinel } from "./handshake.ts";

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
    throw new StoreError({ kind: "failed", detail: "a sentinel does not name a primary" });
  }

  async #answerOf(connection: Connection, question: string): Promise<unknown> {
    try {
      return await answerWithin(connection, this.#opener.connectTimeoutMs, "sentinel", question, this.#name);
    } catch (error) {
      connection.drop(unreachable("the sentinel does not answer"));
      throw error;
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
