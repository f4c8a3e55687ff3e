// Reloads: loads the settings again, makes the new configuration whole, and replaces the old one in one step, together
// with the new contents of watched files. If something is wrong, the result says so, and nothing is changed.
import { isDeepStrictEqual } from "node:util";
import { unlisted } from "../config/auth.ts";
import { changedKeys, emptyPolicies, loosenedKeys, withoutRestart } from "../config/changes.ts";
import { differences } from "../config/effective.ts";
import { type FileChanges, FilesError, type FileWatcher, type WatchedFile } from "../config/files.ts";
import type { SettingsSource } from "../config/load.ts";
import { schema } from "../config/schema.ts";
import type { Raw } from "../config/written.ts";
import { failureCode } from "../core/failure.ts";
import type { FileError } from "../core/file-group.ts";
import type { ReloadCause, ReloadResult, SettingChange } from "../core/reload.ts";
import type { Settings } from "../core/settings.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Carrier } from "./carrier.ts";
import { NotPreparedError } from "./open-counters.ts";

/** Says where a key is written. */
type Locate = (key: string) => string;

/** Settings, with where and how they were written. */
interface WrittenSettings {
  readonly settings: Settings;
  readonly place: Locate;
  /** Null: a program passed the settings, and nothing is written. */
  readonly raw: { readonly root: Raw | undefined } | null;
}

/** What a reload is to put into force. */
interface Wanted extends WrittenSettings {
  /** What is wrong with the configuration: then the settings are those from before. */
  readonly errors: readonly string[];
  /** False: only the contents of files may have changed. */
  readonly isConfigRead: boolean;
}

type ReloadedCarrier = Pick<Carrier, "settings" | "listedTokens" | "replace">;

interface ReloaderOptions {
  readonly files: FileWatcher;
  readonly log: Logger;
  readonly telemetry: Pick<Telemetry, "reloaded">;
  /** Null: the settings come from the caller alone. */
  readonly source: SettingsSource | null;
}

export class Reloader {
  readonly #carrier: ReloadedCarrier;
  readonly #options: ReloaderOptions;
  readonly #source: SettingsSource | null;
  readonly #reloads = new OneAtATime();
  /** With the values that need a restart. */
  #wanted: WrittenSettings;
  /** As it was written when the process started; null: a program passed the settings. */
  #started: WrittenSettings["raw"] = null;
  /** The ids of scopes and overrides that no listed token has: the log has a warning for each, once. */
  #unlisted: ReadonlySet<string>;
  /** Null: the configuration file is not watched. */
  #configFile: WatchedFile | null = null;
  /** Files because of which the configuration that was read last is not in force. */
  #wrongFiles: readonly WatchedFile[] = [];
  #isClosed = false;

  constructor(settings: Settings, carrier: ReloadedCarrier, options: ReloaderOptions) {
    this.#wanted = unwritten(settings);
    this.#carrier = carrier;
    // The start has logged these.
    this.#unlisted = new Set(unlisted(settings, carrier.listedTokens()).map(({ id }) => id));
    this.#options = options;
    this.#source = options.source;
  }

  /** Begins to watch all files. A configuration that has changed since it was loaded for the start is reloaded. */
  async start(): Promise<void> {
    this.#options.files.onChange = () => void this.#ask("file", async () => this.#load(false));
    await this.#watchConfigFile([]);
    if (this.#source === null) return;
    const loaded = this.#source.load(true);
    if (loaded.ok && isDeepStrictEqual(loaded.settings, this.#wanted.settings)) {
      this.#wanted = { ...loaded, raw: { root: loaded.raw } };
      this.#started = this.#wanted.raw;
      return;
    }
    if (this.#configFile === null) return;
    this.#configFile.close();
    this.#configFile = await this.#options.files.openFile(this.#source.file, "changed");
  }

  /** As the configuration was written. What needs a restart has the values of the start in force. */
  get written(): { readonly raw: WrittenSettings["raw"]; readonly started: WrittenSettings["raw"] } {
    return { raw: this.#wanted.raw, started: this.#started };
  }

  to(settings: Settings): Promise<ReloadResult> {
    return this.#ask("call", async () => ({ ...unwritten(settings), errors: [], isConfigRead: true }));
  }

  /** Loads everything again, now. */
  again(cause: ReloadCause): Promise<ReloadResult> {
    return this.#ask(cause, async () => {
      await this.#options.files.reread();
      return this.#load(true);
    });
  }

  /** Resolves when the reload in progress is over. None begins after this, but tokens are still revoked. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#options.files.onChange = () => void this.#carrier.replace(null);
    await this.#reloads.settled();
    for (const file of this.#watched) file?.close();
  }

  get #watched(): readonly (WatchedFile | null)[] {
    return [this.#configFile, ...this.#wrongFiles];
  }

  #ask(cause: ReloadCause, want: () => Promise<Wanted>): Promise<ReloadResult> {
    const reload = async (): Promise<ReloadResult> => {
      if (this.#isClosed) return failed("the gateway is draining, so nothing is reloaded");
      const result = await this.#reloadSafely(want);
      // The reload that was in progress may have taken over this change already.
      if (cause !== "file" || !isEmpty(result)) this.#options.telemetry.reloaded(result, cause);
      return result;
    };
    return this.#reloads.ask(reload, cause !== "file");
  }

  /** Loads the settings if `always`, or if their file or a file that kept them out of force has changed. */
  #load(always: boolean): Wanted {
    const now = { ...this.#wanted, errors: [], isConfigRead: false };
    const isChanged = this.#watched.map((file) => file?.takeChange()).includes(true);
    if (this.#source === null || !(isChanged || always)) return now;
    const loaded = this.#source.load();
    if (!loaded.ok) return { ...now, errors: loaded.errors, isConfigRead: true };
    const { settings, place, raw } = loaded;
    return { settings, place, raw: { root: raw }, errors: [], isConfigRead: true };
  }

  /** A bug ends no process, and leaves the configuration as it is. */
  async #reloadSafely(want: () => Promise<Wanted>): Promise<ReloadResult> {
    try {
      return await this.#reload(await want());
    } catch (error) {
      this.#options.log.error({ err: error }, "internal error");
      return failed(error instanceof NotPreparedError ? error.message : "an internal error");
    }
  }

  async #reload(wanted: Wanted): Promise<ReloadResult> {
    const { isConfigRead } = wanted;
    const { result, wrongFiles } = await this.#replace(wanted);
    if (isConfigRead) await this.#watchConfigFile(wrongFiles);
    this.#warnOfUnlisted();
    const errors = [...wanted.errors, ...result.errors];
    return { ...result, isConfigRead, errors, ok: errors.length + result.refused.length === 0 };
  }

  async #replace(wanted: Wanted): Promise<Replaced> {
    const before = this.#carrier.settings;
    const known = [...(this.#carrier.listedTokens()?.names() ?? [])];
    const { settings, keys: restart } = withoutRestart(wanted.settings, before);
    const changed = changedKeys(before, settings);
    try {
      const files = await this.#carrier.replace(changed.length === 0 ? null : settings);
      const tokenNames = new Set([...known, ...(this.#carrier.listedTokens()?.names() ?? [])]);
      const changes = changesAmong(changed, this.#wanted.raw, wanted.raw, tokenNames);
      const loosened = loosenedKeys({ settings: before, raw: this.#wanted.raw }, { settings, raw: wanted.raw });
      this.#wanted = wanted;
      const reset = emptyPolicies(settings.policies, before.policies);
      const hasStore = before.counters.redis !== null;
      const result = { ...noChange, changed, changes, loosened, reset, hasStore, restart };
      return { result: withFiles(result, files), wrongFiles: [] };
    } catch (error) {
      if (!(error instanceof FilesError)) throw error;
      const result = failed(...error.errors.map((each) => explain(each, wanted.place)));
      return { result: withFiles(result, await this.#carrier.replace(null)), wrongFiles: error.errors };
    }
  }

  /** Warns of scopes and overrides that are not listed any more, in the words of `headgate check`. */
  #warnOfUnlisted(): void {
    const found = unlisted(this.#carrier.settings, this.#carrier.listedTokens());
    for (const { key, detail, id } of found) {
      if (this.#unlisted.has(id)) continue;
      this.#options.log.warn({ detail: `${this.#wanted.place(key)}: ${detail}` }, "configuration warning");
    }
    this.#unlisted = new Set(found.map(({ id }) => id));
  }

  async #watchConfigFile(wrongFiles: readonly FileError[]): Promise<void> {
    const isWatched = this.#source !== null && this.#carrier.settings.reload.watch;
    if (!isWatched) {
      this.#configFile?.close();
      this.#configFile = null;
    } else {
      this.#configFile ??= await this.#options.files.openFile(this.#source.file);
    }
    for (const file of this.#wrongFiles) file.close();
    const { files } = this.#options;
    const open = (error: FileError) => files.openFile(error.file, error.kind === "unreadable" ? error.cause : null);
    this.#wrongFiles = await Promise.all((isWatched ? wrongFiles : []).map(open));
  }
}

/** For settings that a program passes. */
function unwritten(settings: Settings): WrittenSettings {
  return { settings, place: (key) => key, raw: null };
}

/** Returns the differences in the written values of changed keys. Keys that need a restart do not count as changed. */
function changesAmong(
  changed: readonly string[],
  from: WrittenSettings["raw"],
  to: WrittenSettings["raw"],
  tokenNames: ReadonlySet<string>,
): SettingChange[] {
  if (changed.length === 0 || from === null || to === null) return [];
  const isIn = (key: string, outer: string): boolean => `${key}.`.startsWith(`${outer}.`);
  const found = differences(schema, from.root, to.root, tokenNames);
  return found.filter(({ key }) => changed.some((each) => isIn(key, each) || isIn(each, key)));
}

interface Replaced {
  readonly result: ReloadResult;
  readonly wrongFiles: readonly FileError[];
}

function withFiles(result: ReloadResult, { taken, refused }: FileChanges): ReloadResult {
  return { ...result, changed: [...new Set([...result.changed, ...taken])], refused };
}

function failed(...errors: readonly string[]): ReloadResult {
  return { ...noChange, ok: false, errors };
}

function isEmpty({ ok, isConfigRead, changed }: ReloadResult): boolean {
  return ok && !isConfigRead && changed.length === 0;
}

const noChange: ReloadResult = {
  ...{ ok: true, isConfigRead: false },
  ...{ changed: [], changes: [], loosened: [], reset: [], hasStore: false, restart: [], errors: [], refused: [] },
};

/** Paths and contents of files stay out of the log. */
function explain(error: FileError, place: Locate): string {
  if (error.kind === "unreadable") return `${place(error.key)}: cannot be read: ${failureCode(error.cause)}`;
  const { key, line, found, expected } = error;
  return `${place(key)}: ${line === undefined ? "" : `line ${line} of the file: `}found ${found}, expected ${expected}`;
}

type Reload = () => Promise<ReloadResult>;

class OneAtATime {
  #running: Promise<void> | null = null;
  #next: { reload: Reload; readonly done: PromiseWithResolvers<ReloadResult> } | null = null;

  /**
   * A reload that is replaced by a later one before it has begun resolves with the result of the later one.
   * `replaces`: false for one that is part of any other.
   */
  ask(reload: Reload, replaces: boolean): Promise<ReloadResult> {
    if (this.#next === null) this.#next = { reload, done: Promise.withResolvers() };
    else if (replaces) this.#next.reload = reload;
    const { promise } = this.#next.done;
    this.#running ??= this.#run();
    return promise;
  }

  /** Resolves when no reload is in progress. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // Reloads that are asked for in the same turn are one.
    await Promise.resolve();
    for (let next = this.#next; next !== null; next = this.#next) {
      this.#next = null;
      await next.reload().then(next.done.resolve, next.done.reject);
    }
    this.#running = null;
  }
}
