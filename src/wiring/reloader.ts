// Reloads: loads the settings again, makes the new configuration whole, and replaces the old one in one step, together
// with the new contents of watched files. What is wrong is an answer, and changes nothing.
import { isDeepStrictEqual } from "node:util";
import { FilesError } from "../config/read-files.ts";
import type { FileChanges, FileWatcher, WatchedFile } from "../config/watched-files.ts";
import { failureCode } from "../core/failure.ts";
import type { FileError } from "../core/file-group.ts";
import type { ReloadCause, ReloadResult, SettingsSource } from "../core/reload.ts";
import { emptyPolicies, withoutRestart } from "../core/restart-keys.ts";
import type { Settings } from "../core/settings.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { changedKeys } from "./changed-keys.ts";
import { Reloads } from "./reloads.ts";

type Place = (key: string) => string;

/** What a reload shall put into force. */
interface Wanted {
  readonly settings: Settings;
  readonly place: Place;
  /** What is wrong with the configuration: then the settings are those from before. */
  readonly errors: readonly string[];
  /** False: only the contents of files may have changed. */
  readonly isConfigRead: boolean;
}

/** What carries the traffic. */
export interface Reloadable {
  /** In force. */
  readonly settings: Settings;
  /**
   * Puts the settings into force (null: those that are), and the new contents of files with them. Rejects with a
   * FilesError or a NotPreparedError: then nothing has changed.
   */
  replace(settings: Settings | null): Promise<FileChanges>;
}

/** A reload could not be prepared, for a reason that is not in the files: nothing has changed. */
export class NotPreparedError extends Error {}

export interface ReloaderOptions {
  readonly files: FileWatcher;
  readonly log: Logger;
  readonly telemetry: Pick<Telemetry, "reloaded">;
  /** Null: the settings come from the caller alone. */
  readonly source: SettingsSource | null;
}

export class Reloader {
  readonly #engine: Reloadable;
  readonly #base: ReloaderOptions;
  readonly #source: SettingsSource | null;
  readonly #reloads = new Reloads();
  /** With the values that need a restart. */
  #wanted: Settings;
  /** Null: the configuration file is not watched. */
  #configFile: WatchedFile | null = null;
  /** Files because of which the configuration that was read last is not in force. */
  #wrongFiles: readonly WatchedFile[] = [];
  #isClosed = false;

  constructor(settings: Settings, engine: Reloadable, options: ReloaderOptions) {
    this.#wanted = settings;
    this.#engine = engine;
    this.#base = options;
    this.#source = options.source;
  }

  /** Begins to watch all files. A configuration that has changed since it was loaded for the start is reloaded. */
  async start(): Promise<void> {
    this.#base.files.onChange = () => void this.#ask("file", async () => this.#load(false));
    await this.#watchConfigFile([]);
    if (this.#source === null || this.#configFile === null) return;
    const loaded = this.#source.load(true);
    if (loaded.ok && isDeepStrictEqual(loaded.settings, this.#wanted)) return;
    this.#configFile.close();
    this.#configFile = await this.#base.files.openFile(this.#source.file, "changed");
  }

  to(settings: Settings): Promise<ReloadResult> {
    return this.#ask("call", async () => ({ settings, place: (key) => key, errors: [], isConfigRead: true }));
  }

  /** Loads everything again, now. */
  again(cause: ReloadCause): Promise<ReloadResult> {
    return this.#ask(cause, async () => {
      await this.#base.files.reread();
      return this.#load(true);
    });
  }

  /** Resolves when the reload in progress is over. None begins after this, but tokens are still revoked. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#base.files.onChange = () => void this.#engine.replace(null);
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
      // What has changed may have been part of the reload before, which was in progress.
      if (cause !== "file" || !isEmpty(result)) this.#base.telemetry.reloaded(result, cause);
      return result;
    };
    return this.#reloads.ask(reload, cause !== "file");
  }

  /** Loads the settings if their file has changed, or one that kept them from being put into force, or in any case. */
  #load(always: boolean): Wanted {
    const now = { settings: this.#wanted, place: (key: string) => key, errors: [], isConfigRead: false };
    const isChanged = this.#watched.map((file) => file?.takeChange()).includes(true);
    if (this.#source === null || !(isChanged || always)) return now;
    const loaded = this.#source.load();
    return { ...now, ...(loaded.ok ? { ...loaded, errors: [] } : { errors: loaded.errors }), isConfigRead: true };
  }

  /** A bug ends no process, and leaves the configuration as it is. */
  async #reloadSafely(want: () => Promise<Wanted>): Promise<ReloadResult> {
    try {
      return await this.#reload(await want());
    } catch (error) {
      this.#base.log.error({ err: error }, "internal error");
      return failed(error instanceof NotPreparedError ? error.message : "an internal error");
    }
  }

  async #reload(wanted: Wanted): Promise<ReloadResult> {
    const { isConfigRead } = wanted;
    const { result, wrongFiles } = await this.#replace(wanted);
    if (isConfigRead) await this.#watchConfigFile(wrongFiles);
    const errors = [...wanted.errors, ...result.errors];
    return { ...result, isConfigRead, errors, ok: errors.length + result.refused.length === 0 };
  }

  async #replace({ settings: wanted, place }: Wanted): Promise<Replaced> {
    const before = this.#engine.settings;
    const { settings, keys: restart } = withoutRestart(wanted, before);
    const changed = changedKeys(before, settings);
    try {
      const files = await this.#engine.replace(changed.length === 0 ? null : settings);
      this.#wanted = wanted;
      const reset = emptyPolicies(settings.policies, before.policies);
      return { result: withFiles({ ...noChange, changed, reset, restart }, files), wrongFiles: [] };
    } catch (error) {
      if (!(error instanceof FilesError)) throw error;
      const result = failed(...error.errors.map((each) => explain(each, place)));
      return { result: withFiles(result, await this.#engine.replace(null)), wrongFiles: error.errors };
    }
  }

  async #watchConfigFile(wrongFiles: readonly FileError[]): Promise<void> {
    const isWatched = this.#source !== null && this.#engine.settings.reload.watch;
    if (!isWatched) {
      this.#configFile?.close();
      this.#configFile = null;
    } else {
      this.#configFile ??= await this.#base.files.openFile(this.#source.file);
    }
    for (const file of this.#wrongFiles) file.close();
    const { files } = this.#base;
    const open = (error: FileError) => files.openFile(error.file, error.kind === "unreadable" ? error.cause : null);
    this.#wrongFiles = await Promise.all((isWatched ? wrongFiles : []).map(open));
  }
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
  ...{ changed: [], reset: [], restart: [], errors: [], refused: [] },
};

/** Paths and contents of files stay out of the log. */
function explain(error: FileError, place: Place): string {
  if (error.kind === "unreadable") return `${place(error.key)}: cannot be read: ${failureCode(error.cause)}`;
  const { key, line, found, expected } = error;
  return `${place(key)}: ${line === undefined ? "" : `line ${line} of the file: `}found ${found}, expected ${expected}`;
}
