// A reload in one thread: what is prepared waits until the main thread has the answers of all threads.
import { InTurn } from "../../core/in-turn.ts";
import { settingsOfThread } from "../../core/settings.ts";
import type { Engine, Prepared } from "../engine.ts";
import type { GivenFiles } from "./given-files.ts";
import type { AskedOf } from "./messages.ts";

export class PreparedReload {
  readonly #engine: Pick<Engine, "prepare">;
  readonly #files: Pick<GivenFiles, "offer" | "take" | "drop">;
  /** An engine prepares one configuration at a time. */
  readonly #turn = new InTurn();
  /** Rises with each `prepare` and `drop`: only the last `prepare` counts. */
  #last = 0;
  #prepared: Prepared | null = null;

  constructor(engine: Pick<Engine, "prepare">, files: Pick<GivenFiles, "offer" | "take" | "drop">) {
    this.#engine = engine;
    this.#files = files;
  }

  /** The main thread does not wait for ever: it may have called `drop` before this is over, and asked for another one. */
  async prepare({ contents, settings, onTrial, chosen }: AskedOf<"prepare">): Promise<void> {
    this.#last += 1;
    const own = this.#last;
    // A revoked token does not wait for what the engine prepares and nobody wants any more.
    if (settings === null) return this.#files.offer(contents);
    await this.#turn.do(async () => {
      if (own !== this.#last) return;
      this.#files.offer(contents);
      const prepared = await this.#engine.prepare(settingsOfThread(settings), onTrial, chosen);
      if (own === this.#last) this.#prepared = prepared;
      else prepared.drop();
    });
  }

  commit(): void {
    this.#prepared?.commit();
    this.#files.take();
    this.#prepared = null;
  }

  drop(): void {
    this.#last += 1;
    this.#prepared?.drop();
    this.#prepared = null;
    this.#files.drop();
  }
}
