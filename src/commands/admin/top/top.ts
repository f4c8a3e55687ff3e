// `headgate top`: the clients by what they use, in a terminal, again and again. Whatever happens is put in one inbox, and one loop
// does something about it: so no call overlaps another one, and whatever ends the loop, the terminal is as it was before.

import type { HistoryAnswer } from "../../../admin/control-plane.ts";
import { systemClock } from "../../../core/clock.ts";
import {
  CommandError,
  type CommandIo,
  exitCodes,
  signalExitCodes,
  type Terminal,
  type TerminationSignal,
} from "../../io.ts";
import { AdminClient, placeOf, type Where } from "../admin-client.ts";
import type { ConnectedGateway } from "../connect.ts";
import type { TopArguments } from "../invocation.ts";
import { instantText, jsonText, linesText } from "../printed.ts";
import { type Key, KeyReader } from "./keys.ts";
import { Drawing, lineText } from "./lines.ts";
import { pageRows, printout, screen } from "./screen.ts";
import {
  type Answers,
  type Effect,
  type FoundClient,
  firstState,
  pressed,
  type Rates,
  type TopState,
  wantedRows,
  withAnswers,
  withFailure,
} from "./state.ts";

type Happening =
  | { readonly kind: "input"; readonly bytes: Uint8Array }
  /** No more bytes came after those that may be the escape key. */
  | { readonly kind: "silence" }
  /** Since the last call, the interval has passed. */
  | { readonly kind: "due" }
  | { readonly kind: "answers"; readonly answers: Answers }
  | { readonly kind: "failure"; readonly error: unknown }
  | { readonly kind: "resize" | "continue" | "stop" | "hangup" }
  | { readonly kind: "signal"; readonly signal: TerminationSignal };

/** How long after its first byte the rest of a sequence may come, over a slow connection too. */
const escapeMs = 50;
/** As many as the API lists without a limit. */
const printedRows = 50;

/** Resolves with the exit code. Without a terminal, or if it is asked for, the table is printed once. */
export async function runTop(
  { client }: ConnectedGateway,
  wanted: TopArguments,
  isJson: boolean,
  io: CommandIo,
): Promise<number> {
  const asking = await openAsking(client.where);
  const state = firstState(placeOf(client.where), wanted);
  try {
    const terminal = wanted.isOnce || isJson ? null : await io.openTerminal();
    // An error here is printed where the terminal keeps it.
    const answers = await asking.answers(state, printedRows);
    if (isJson) io.out(jsonText(answers.list));
    else if (terminal === null) io.out(linesText(printout(withAnswers(state, answers)).map(lineText)));
    else return await new Top(asking, wanted.intervalMs, withAnswers(state, answers), terminal, io).run();
    return exitCodes.ok;
  } finally {
    asking.close();
  }
}

class Top {
  readonly #asking: Asking;
  readonly #intervalMs: number;
  readonly #terminal: Terminal;
  readonly #drawing: Drawing;
  readonly #io: CommandIo;
  readonly #inbox = new Inbox<Happening>();
  readonly #keys = new KeyReader();
  #state: TopState;
  #isAsking = false;
  /** Something was changed while a call was under way. */
  #isStale = false;
  #due: NodeJS.Timeout | undefined;
  #silence: NodeJS.Timeout | undefined;

  constructor(asking: Asking, intervalMs: number, state: TopState, terminal: Terminal, io: CommandIo) {
    const { NO_COLOR: noColor = "" } = io.env;
    this.#asking = asking;
    this.#intervalMs = intervalMs;
    this.#state = state;
    this.#terminal = terminal;
    this.#drawing = new Drawing(terminal, noColor === "");
    this.#io = io;
  }

  /** Resolves with the exit code. */
  async run(): Promise<number> {
    const inbox = this.#inbox;
    const stopReading = this.#terminal.read({
      onInput: (bytes) => inbox.put({ kind: "input", bytes }),
      onEnd: () => inbox.put({ kind: "hangup" }),
      onResize: () => inbox.put({ kind: "resize" }),
      onStop: () => inbox.put({ kind: "stop" }),
      onContinue: () => inbox.put({ kind: "continue" }),
      onExit: () => this.#drawing.close(),
    });
    this.#io.onSignal((signal) => inbox.put({ kind: "signal", signal }));
    try {
      this.#drawing.open();
      this.#waitForDue();
      for (;;) {
        this.#drawing.draw(screen(this.#state, this.#drawing.size));
        const exitCode = await this.#handle(await inbox.take());
        if (exitCode !== null) return exitCode;
      }
    } finally {
      clearTimeout(this.#due);
      clearTimeout(this.#silence);
      this.#drawing.close();
      stopReading();
    }
  }

  /** Resolves with the exit code, or with null: it goes on. */
  async #handle(happening: Happening): Promise<number | null> {
    switch (happening.kind) {
      case "input":
        return this.#onKeys(this.#keys.read(happening.bytes));
      case "silence":
        return this.#onKeys(this.#keys.flush());
      case "due":
        if (!this.#state.isPaused) this.#ask();
        return null;
      case "answers":
        this.#state = withAnswers(this.#state, happening.answers);
        this.#asked();
        return null;
      case "failure":
        this.#failed(happening.error);
        return null;
      case "resize":
      case "continue":
        this.#drawing.restore();
        return null;
      case "stop":
        await this.#suspend("process");
        return null;
      case "hangup":
        return signalExitCodes.SIGHUP;
      case "signal":
        return signalExitCodes[happening.signal];
    }
  }

  async #onKeys(keys: readonly Key[]): Promise<number | null> {
    clearTimeout(this.#silence);
    if (this.#keys.isWaiting) this.#silence = setTimeout(() => this.#inbox.put({ kind: "silence" }), escapeMs);
    for (const key of keys) {
      const [next, effect] = pressed(this.#state, key, pageRows(this.#state, this.#drawing.size));
      this.#state = next;
      if (effect === "quit") return exitCodes.ok;
      await this.#carryOut(effect);
    }
    return null;
  }

  async #carryOut(effect: Effect): Promise<void> {
    if (effect === "refresh") this.#ask();
    if (effect === "redraw") this.#drawing.restore();
    if (effect === "suspend") await this.#suspend("group");
  }

  async #suspend(who: "group" | "process"): Promise<void> {
    this.#drawing.close();
    await this.#terminal.stop(who);
    this.#drawing.open();
  }

  /** One call at a time: what is wanted meanwhile is asked for afterwards. */
  #ask(): void {
    if (this.#isAsking) {
      this.#isStale = true;
      return;
    }
    clearTimeout(this.#due);
    this.#isAsking = true;
    const limit = wantedRows(this.#state, pageRows(this.#state, this.#drawing.size));
    this.#asking.answers(this.#state, limit).then(
      (answers) => this.#inbox.put({ kind: "answers", answers }),
      (error) => this.#inbox.put({ kind: "failure", error }),
    );
  }

  #failed(error: unknown): void {
    if (!(error instanceof CommandError)) throw error;
    const nowMs = systemClock.wallMs();
    this.#state = withFailure(this.#state, error.message, instantText(new Date(nowMs).toISOString(), nowMs));
    this.#asked();
  }

  /** A call is over. */
  #asked(): void {
    const isStale = this.#isStale;
    this.#isAsking = false;
    this.#isStale = false;
    if (isStale) this.#ask();
    else this.#waitForDue();
  }

  #waitForDue(): void {
    clearTimeout(this.#due);
    this.#due = setTimeout(() => this.#inbox.put({ kind: "due" }), this.#intervalMs);
  }
}

/** What has happened, in its order, for one reader: so that an error of what is done about it reaches the one who reads. */
export class Inbox<T> {
  readonly #waiting: T[] = [];
  #wake: (() => void) | null = null;

  put(item: T): void {
    this.#waiting.push(item);
    this.#wake?.();
  }

  /** One reader at a time. */
  async take(): Promise<T> {
    while (this.#waiting.length === 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#waiting.shift() as T;
  }
}

/** A gateway that says nothing for so long is away: people wait for the answer. */
const silentMs = 5_000;
/** A step of the history: it has nothing new earlier. */
const historyMs = 5_000;

/**
 * Asks the gateway for what `headgate top` shows: its state, and clients. Connections are kept between calls, because
 * each new one costs the gateway more than the answer.
 */
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
