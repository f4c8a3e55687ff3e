// Reloads: loads the settings again, makes the new configuration whole, and replaces the old one in one step, together
// with the new contents of watched files. What is wrong is an answer, and changes nothing.
import { FilesError, type WatchedFile } from "../config/watched-files.ts";
import { failureCode } from "../core/failure.ts";
import type { FileError } from "../core/file-group.ts";
import type { ReloadCause, ReloadResult, SettingsSource } from "../core/reload.ts";
import { emptyPolicies, withoutRestart } from "../core/restart-keys.ts";
import type { Settings } from "../core/settings.ts";
import { changedKeys } from "./changed-keys.ts";
import { type ConfigurationBase, configure } from "./configuration.ts";
import type { InForce } from "./in-force.ts";
import { Reloads } from "./reloads.ts";

type Place = (key: string) => string;

/** The settings that were asked for last, and what was wrong with those that were loaded after them. */
interface Wanted {
  readonly settings: Settings;
  readonly place: Place;
  readonly errors: readonly string[];
}

export class Reloader {
  readonly #inForce: InForce;
  readonly #base: ConfigurationBase;
  readonly #source: SettingsSource | null;
  readonly #reloads = new Reloads();
  #wanted: Settings;
  /** Null: changes of the configuration file are not watched. */
  #configFile: WatchedFile | null = null;
  #isClosed = false;

  constructor(settings: Settings, inForce: InForce, base: ConfigurationBase, source: SettingsSource | null) {
    this.#wanted = settings;
    this.#inForce = inForce;
    this.#base = base;
    this.#source = source;
  }

  /** Begins to watch all files. */
  async start(): Promise<void> {
    this.#base.files.onChange = () => void this.#ask("file", async () => this.#load(false));
    await this.#watchConfigFile();
  }

  to(settings: Settings): Promise<ReloadResult> {
    return this.#ask("call", async () => ({ settings, place: (key) => key, errors: [] }));
  }

  /** Loads everything again, now. */
  again(cause: ReloadCause): Promise<ReloadResult> {
    return this.#ask(cause, async () => {
      await this.#base.files.reread();
      return this.#load(true);
    });
  }

  /** Resolves when the reload in progress is over. None begins after this. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#reloads.settled();
    this.#configFile?.close();
  }

  async #ask(cause: ReloadCause, want: () => Promise<Wanted>): Promise<ReloadResult> {
    const reload = async (): Promise<ReloadResult> => {
      if (this.#isClosed) return failed("the gateway is draining, so nothing is reloaded");
      const result = await this.#reloadSafely(want);
      this.#base.telemetry.reloaded(result, cause);
      await this.#watchConfigFile();
      return result;
    };
    return this.#reloads.ask(reload, cause !== "file");
  }

  /** Loads the settings if their file has changed, or in any case. */
  #load(always: boolean): Wanted {
    const now = { settings: this.#wanted, place: (key: string) => key, errors: [] };
    const isChanged = this.#configFile?.takeChange() === true;
    if (this.#source === null || !(isChanged || always)) return now;
    const loaded = this.#source.load();
    return loaded.ok ? { ...loaded, errors: [] } : { ...now, errors: loaded.errors };
  }

  /** A bug ends no process, and leaves the configuration as it is. */
  async #reloadSafely(want: () => Promise<Wanted>): Promise<ReloadResult> {
    try {
      return await this.#reload(await want());
    } catch (error) {
      this.#base.log.error({ err: error }, "internal error");
      return failed("an internal error");
    }
  }

  async #reload({ settings: wanted, place, errors }: Wanted): Promise<ReloadResult> {
    const before = this.#inForce.configuration;
    const { settings, keys: restart } = withoutRestart(wanted, before.settings);
    const changed = changedKeys(before.settings, settings);
    if (changed.length === 0) {
      this.#wanted = wanted;
      return this.#withFiles({ ...noChange, restart, errors });
    }
    try {
      const next = await configure(settings, this.#base, before);
      this.#wanted = wanted;
      this.#inForce.replace(next, this.#base);
    } catch (error) {
      if (!(error instanceof FilesError)) throw error;
      return this.#withFiles({ ...failed(...error.errors.map((each) => explain(each, place))), restart });
    }
    const reset = emptyPolicies(settings.policies, before.settings.policies);
    return this.#withFiles({ ...noChange, changed, reset, restart, errors });
  }

  /** Puts the new contents of files into use, in the same turn as the new configuration. */
  #withFiles(result: ReloadResult): ReloadResult {
    const { taken, refused } = this.#base.files.take();
    const changed = [...new Set([...result.changed, ...taken])];
    return { ...result, changed, refused, ok: result.errors.length + refused.length === 0 };
  }

  async #watchConfigFile(): Promise<void> {
    const isWatched = this.#source !== null && this.#inForce.configuration.settings.reload.watch && !this.#isClosed;
    if (isWatched === (this.#configFile !== null)) return;
    this.#configFile?.close();
    this.#configFile = null;
    // A file that cannot be read is tried again after the next reload.
    this.#configFile = isWatched ? await this.#base.files.openFile("", this.#source.file).catch(ignoreFiles) : null;
  }
}

function ignoreFiles(error: unknown): null {
  if (error instanceof FilesError) return null;
  throw error;
}

function failed(...errors: readonly string[]): ReloadResult {
  return { ...noChange, ok: false, errors };
}

const noChange: ReloadResult = { ok: true, changed: [], reset: [], restart: [], errors: [], refused: [] };

/** Paths and contents of files stay out of the log. */
function explain(error: FileError, place: Place): string {
  if (error.kind === "unreadable") return `${place(error.key)}: cannot be read: ${failureCode(error.cause)}`;
  const { key, line, found, expected } = error;
  return `${place(key)}: ${line === undefined ? "" : `line ${line} of the file: `}found ${found}, expected ${expected}`;
}
