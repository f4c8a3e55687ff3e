// Asks the gateway for what `headgate top` shows: its state, and clients. Connections are kept between calls, because each new
// one costs the gateway more than the answer.
import type { HistoryAnswer } from "../../../admin/control-plane.ts";
import { systemClock } from "../../../core/clock.ts";
import { exitCodes } from "../../io.ts";
import { AdminClient, type Where } from "../admin-client.ts";
import { CommandError } from "../command-error.ts";
import type { Answers, FoundClient, Rates, TopState } from "./state.ts";

/** A gateway that says nothing for so long is away: people wait for the answer. */
const silentMs = 5_000;
/** A step of the history: it has nothing new earlier. */
const historyMs = 5_000;

export class Asking {
  readonly #client: AdminClient;
  readonly #close: () => void;
  #rates: Rates | null = null;
  #ratesAtMs = Number.NEGATIVE_INFINITY;

  constructor(client: AdminClient, close: () => void) {
    this.#client = client;
    this.#close = close;
  }

  /** Asks for what is shown: while it is one client, the list stays as it is. `limit`: rows. Rejects with a CommandError. */
  async answers(state: TopState, limit: number): Promise<Answers> {
    const { policy, sort, search } = state;
    const status = await this.#client.status();
    const rates = await this.#history();
    const client = state.client === null ? null : await this.#find(state.client.key);
    const kept = client === null ? null : (state.answers?.list ?? null);
    const list = kept ?? (await this.#client.clients({ policy, sort, search, limit }));
    return { status, rates, list, client, atMs: systemClock.wallMs() };
  }

  /** A client that the gateway does not know is no error. */
  async #find(key: string): Promise<FoundClient> {
    try {
      return { key, state: await this.#client.client(key), missing: null };
    } catch (error) {
      if (!(error instanceof CommandError) || error.exitCode !== exitCodes.refused) throw error;
      return { key, state: null, missing: error.message };
    }
  }

  /** A call that is under way fails. */
  close(): void {
    this.#close();
  }

  async #history(): Promise<Rates | null> {
    const nowMs = systemClock.monotonicMs();
    if (nowMs - this.#ratesAtMs >= historyMs) {
      this.#rates = ratesOf(await this.#client.history());
      this.#ratesAtMs = nowMs;
    }
    return this.#rates;
  }
}

export async function openAsking(where: Where): Promise<Asking> {
  const isTls = where.kind === "url" && where.url.protocol === "https:";
  const { Agent, request } = isTls ? await import("node:https") : await import("node:http");
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const client = new AdminClient(where, (options) => request({ ...options, agent }), silentMs);
  return new Asking(client, () => agent.destroy());
}

/** Of the last step that was counted. */
export function ratesOf({ steps }: HistoryAnswer): Rates | null {
  const step = steps.at(-1) ?? null;
  if (step === null || step.seconds === 0) return null;
  const refused = Object.values(step.refused).reduce((sum, count) => sum + count, 0);
  return {
    ...{ admitted: step.admitted / step.seconds, refused: refused / step.seconds },
    p99Seconds: step.latencySeconds?.p99 ?? null,
  };
}
