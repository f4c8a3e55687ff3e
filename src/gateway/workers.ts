// The workers of the process: the main thread carries the traffic itself, or several threads beside it do. Operators' questions
// are answered here, without a message to a thread. A reload is prepared by all, then put into force by all or by none.
import type { FileChanges, FileWatcher } from "../config/files.ts";
import type { ListedTokens } from "../core/authentication.ts";
import { InTurn } from "../core/in-turn.ts";
import type { RuleChange } from "../core/rules.ts";
import type { Settings } from "../core/settings.ts";
import type { ForgivenName } from "../limits/forgive.ts";
import type { ForgivenNotice } from "../limits/store/shared-rules.ts";
import { type Engine, openEngine } from "./engine.ts";
import { chosenOf, freeSlots } from "./open-counters.ts";
import type { SettingsOnTrial } from "./reload-trials.ts";
import type { MainThread } from "./threads/main-thread.ts";
import type { ThreadPool, ThreadPoolOptions } from "./threads/thread-pool.ts";

/** Resolves when all threads are ready to listen. Rejects with a FilesError, or with what kept a thread from starting. */
export async function openWorkers(
  settings: Settings,
  files: FileWatcher,
  options: ThreadPoolOptions,
): Promise<Workers> {
  if (settings.workers === 1) {
    return new Workers({ main: await openEngine(settings, files, options), threads: null }, files, options);
  }
  // Imported only if there are threads, because a start without it is faster.
  const { startThreads } = await import("./threads/thread-pool.ts");
  return new Workers(await startThreads(settings, files, options), files, options);
}

type Roles =
  | { readonly main: Engine; readonly threads: null }
  | { readonly main: MainThread; readonly threads: ThreadPool };

export class Workers {
  /** The main thread has the configuration in force and its files, and answers about clients. */
  readonly main: Engine | MainThread;
  /** What carries the traffic, and answers operators about it: the main thread itself, or the threads beside it. */
  readonly serving: Engine | ThreadPool;
  readonly #roles: Roles;
  readonly #files: FileWatcher;
  readonly #options: Pick<ThreadPoolOptions, "counters" | "clock">;
  readonly #turn: InTurn;

  /** Use `openWorkers`. */
  constructor(roles: Roles, files: FileWatcher, options: Pick<ThreadPoolOptions, "counters" | "clock">) {
    this.#roles = roles;
    this.main = roles.main;
    this.serving = roles.threads === null ? roles.main : roles.threads;
    this.#turn = roles.threads === null ? new InTurn() : roles.threads.turn;
    this.#files = files;
    this.#options = options;
  }

  /** In force. */
  get settings(): Settings {
    return this.main.configuration.settings;
  }

  /** In force. Null: there is no list. */
  listedTokens(): ListedTokens | null {
    return this.main.configuration.files.authenticator.tokens()?.list ?? null;
  }

  /**
   * Puts the settings into force (null: those that are), and the new contents of files with them. `onTrial`: null if they are
   * not on trial, which ends one that is on. Rejects with a FilesError or a NotPreparedError: then nothing has changed.
   */
  replace(settings: Settings | null, onTrial: SettingsOnTrial | null = null): Promise<FileChanges> {
    return this.#turn.do(async () => {
      if (settings !== null) await freeSlots(this.#options.counters.table, this.#options.clock);
      const { prepared, offer, areThreadsAsked } = await this.#prepare(settings, onTrial);
      // In one turn of the event loop.
      prepared?.commit();
      const committed = areThreadsAsked ? this.#roles.threads?.commit({ settings, onTrial }) : undefined;
      const changes = this.#files.take(offer);
      await committed;
      return changes;
    });
  }

  /** `areThreadsAsked`: whether there are threads that have prepared something. */
  async #prepare(settings: Settings | null, onTrial: SettingsOnTrial | null) {
    const { main, threads } = this.#roles;
    const prepared = settings === null ? null : await main.prepare(settings, onTrial);
    const offer = this.#files.offer();
    const areThreadsAsked = threads !== null && (prepared !== null || offer.hasNews);
    if (!areThreadsAsked) return { prepared, offer, areThreadsAsked };
    const chosen = prepared?.chosen ?? chosenOf(main.configuration.limiter);
    await threads.prepare({ settings, onTrial, chosen, contents: offer.contents }).catch((error) => {
      prepared?.drop();
      throw error;
    });
    return { prepared, offer, areThreadsAsked };
  }

  /** The settings in force are not on trial any more. */
  endTrial(): Promise<void> {
    return this.#turn.do(async () => {
      const { main, threads } = this.#roles;
      // Before another reload can give their slots to others, no thread may have them.
      await threads?.endTrial();
      main.endTrial();
    });
  }

  /** Resolves when every other thread that serves has the change. Changes must come one after the other. */
  async changeRules(change: RuleChange): Promise<void> {
    await this.#roles.threads?.changeRules(change);
  }

  /**
   * Forgets what is counted of some names: in the table, which threads share, once, then what each thread holds. Afterwards
   * this gateway knows every entry up to `logPosition`. Calls must come one after the other. Resolves when every thread
   * has done it, with what was forgotten of each; null for a name that is none.
   */
  async forgive(forgiven: readonly ForgivenNotice[], logPosition: number): Promise<readonly (ForgivenName | null)[]> {
    const forgotten = await this.main.forgive(forgiven, logPosition);
    await this.#roles.threads?.forgive(forgiven, logPosition);
    return forgotten;
  }
}
