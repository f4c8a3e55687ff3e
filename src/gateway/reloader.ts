// Reloads: loads the settings again, makes the new configuration whole, and replaces the old one in one step, together
// with the new contents of watched files. If something is wrong, the result says so, and nothing is changed. A configuration
// that is put into force on trial is replaced by the one before it, in the same way, unless it is confirmed.
import { isDeepStrictEqual } from "node:util";
import { changedKeys, emptyPolicies, loosenedKeys, withoutRestart } from "../config/changes.ts";
import { differences } from "../config/effective.ts";
import { type FileChanges, FilesError, type FileWatcher, type WatchedFile } from "../config/files.ts";
import type { SettingsSource } from "../config/load.ts";
import { schema } from "../config/schema.ts";
import { unlisted } from "../config/unchecked-paths.ts";
import type { RawEntry } from "../config/written.ts";
import type { Clock } from "../core/clock.ts";
import { failureCode, ignoreError } from "../core/failure.ts";
import type { FileError } from "../core/file-group.ts";
import { InTurn } from "../core/in-turn.ts";
import type {
  ConfirmReason,
  ReloadCause,
  ReloadResult,
  ReloadTrial,
  SettingChange,
  TakeBackReason,
  TrialEnding,
  TrialTerms,
} from "../core/reload.ts";
import type { Settings } from "../core/settings.ts";
import { createErrorLog, type Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { AdminFiles } from "./control/admin-files.ts";
import { NotPreparedError } from "./open-counters.ts";
import {
  type Locate,
  type OnTrial,
  ReloadTrials,
  type SettingsOnTrial,
  settingsOnTrial,
  type WrittenSettings,
} from "./reload-trials.ts";
import type { Workers } from "./workers.ts";

/** Why there is a reload. `by`: who asked for it, as the admin API names callers; null: nobody, or a program. */
type ReloadOrigin = Pick<ReloadTrial, "cause" | "by">;

/** What a reload is to put into force. */
interface WantedReload extends WrittenSettings, ReloadOrigin {
  /** What is wrong with the configuration: then the settings are those from before. */
  readonly errors: readonly string[];
  /** False: only the contents of files may have changed. */
  readonly isConfigRead: boolean;
  /** Null: the configuration is not on trial. */
  readonly terms: TrialTerms | null;
  /** Why this configuration, which is the one before a trial, comes back; null: it is another one. */
  readonly takenBack: TrialEnding<TakeBackReason> | null;
}

type ReloadedWorkers = Pick<Workers, "settings" | "listedTokens" | "replace" | "endTrial">;

export type TrialControl = Pick<Reloader, "trial" | "confirm" | "takeBack">;

interface ReloadTelemetry extends Pick<Telemetry, "trialChanged"> {
  /** `by`: who asked for it, or for the end of the trial; null: nobody, or a program. */
  reloaded(result: ReloadResult, cause: ReloadCause, by: string | null): void;
}

interface ReloaderOptions {
  readonly files: FileWatcher;
  /** Replaced together with what carries the traffic. */
  readonly adminFiles: Pick<AdminFiles, "prepare">;
  readonly log: Logger;
  readonly clock: Clock;
  readonly telemetry: ReloadTelemetry;
  /** Null: the settings come from the caller alone. */
  readonly source: SettingsSource | null;
}

export class Reloader {
  readonly #workers: ReloadedWorkers;
  readonly #options: ReloaderOptions;
  readonly #logError: (error: unknown) => void;
  readonly #reloads = new OneAtATime();
  readonly #trials: ReloadTrials;
  readonly #listeners = new Set<Partial<ReloadTelemetry>>();
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

  constructor(settings: Settings, workers: ReloadedWorkers, options: ReloaderOptions) {
    this.#wanted = unwritten(settings);
    this.#workers = workers;
    // The start has logged these.
    this.#unlisted = new Set(unlisted(settings, workers.listedTokens()).map(({ id }) => id));
    this.#options = options;
    this.#logError = createErrorLog(options.log);
    this.subscribe(options.telemetry);
    this.#trials = new ReloadTrials({
      clock: options.clock,
      onEvent: (event) => {
        for (const { trialChanged } of this.#listeners) trialChanged?.(event);
      },
      onOver: (reason) => void this.#over(reason).catch(ignoreError),
    });
  }

  /** The listener is told of each reload, and of what becomes of those on trial. */
  subscribe(listener: Partial<ReloadTelemetry>): void {
    this.#listeners.add(listener);
  }

  /** Begins to watch all files. A configuration that has changed since it was loaded for the start is reloaded. */
  async start(): Promise<void> {
    this.#options.files.onChange = () =>
      void this.#ask(byFile, async () => this.#load(byFile, false)).catch(this.#logError);
    await this.#watchConfigFile([]);
    if (this.#options.source === null) return;
    const loaded = this.#options.source.load(true);
    if (loaded.ok && isDeepStrictEqual(loaded.settings, this.#wanted.settings)) {
      this.#wanted = { settings: loaded.settings, locate: loaded.place, raw: { root: loaded.raw } };
      this.#started = this.#wanted.raw;
      return;
    }
    await this.#loadSoon();
  }

  /** Has the configuration file read again, if it is watched. */
  async #loadSoon(): Promise<void> {
    if (this.#configFile === null || this.#options.source === null || this.#options.source.file === null) return;
    this.#configFile.close();
    this.#configFile = await this.#options.files.openFile(this.#options.source.file, "changed");
  }

  /** As the configuration was written. What needs a restart has the values of the start in force. */
  get written(): { readonly raw: WrittenSettings["raw"]; readonly started: WrittenSettings["raw"] } {
    return { raw: this.#wanted.raw, started: this.#started };
  }

  /** The configuration that is on trial. Null: none is. */
  get trial(): ReloadTrial | null {
    return this.#trials.state;
  }

  to(settings: Settings, terms: TrialTerms | null = null): Promise<ReloadResult> {
    const asked = { cause: "call", by: null } as const;
    const wanted = { ...unwritten(settings), ...asked, errors: [], isConfigRead: true, takenBack: null, terms };
    return this.#ask(asked, async () => wanted);
  }

  /** Loads everything again, now. `by`: who asks. */
  again(cause: ReloadCause, terms: TrialTerms | null = null, by: string | null = null): Promise<ReloadResult> {
    return this.#ask({ cause, by }, async () => {
      await this.#options.files.reread();
      return this.#load({ cause, by }, true, terms);
    });
  }

  /** Loads the settings, and returns what a reload would change. Opens none of the files that they name. */
  preview(): ReloadResult {
    const loaded = this.#options.source?.load();
    if (loaded === undefined) return noChange;
    if (!loaded.ok) return failed(...loaded.errors);
    const wanted = { settings: loaded.settings, raw: { root: loaded.raw } };
    const { result } = this.#compare(wanted);
    const tokenNames = new Set(this.#workers.listedTokens()?.names() ?? []);
    return { ...result, changes: changesAmong(result.changed, this.#wanted.raw, wanted.raw, tokenNames) };
  }

  /** Compares with what is in force. The result has no values yet, because new files may list further names of tokens. */
  #compare(wanted: Pick<WrittenSettings, "settings" | "raw">) {
    const before = this.#workers.settings;
    const { settings, keys: restart } = withoutRestart(wanted.settings, before);
    const changed = changedKeys(before, settings);
    const loosened = loosenedKeys({ settings: before, raw: this.#wanted.raw }, { settings, raw: wanted.raw });
    const kept = this.#trials.current?.fallback.settings.policies ?? [];
    const reset = emptyPolicies(settings.policies, [...before.policies, ...kept]);
    const hasStore = before.counters.redis !== null;
    return { settings, result: { ...noChange, changed, loosened, reset, hasStore, restart } };
  }

  /** Ends the trial: its configuration stays in force. `by`: who asks. Resolves with the trial; null if none was on. */
  confirm(by: string | null = null, reason: ConfirmReason = "asked"): Promise<ReloadTrial | null> {
    return this.#onTrial(async () => {
      await this.#workers.endTrial();
      const confirmed = this.#trials.state;
      this.#trials.end({ kind: "confirmed", reason, by });
      return confirmed;
    });
  }

  /** Puts the configuration before the trial into force. `by`: who asks. Resolves with null if none is on trial. */
  takeBack(by: string | null = null, reason: TakeBackReason = "asked"): Promise<ReloadResult | null> {
    return this.#onTrial(async ({ fallback }) => {
      const asked = { cause: "trial", by, takenBack: { reason, by } } as const;
      const wanted = { ...fallback, ...asked, errors: [], isConfigRead: true, terms: null };
      // If it cannot be put into force, the trial goes on, and this is tried again.
      const result = await this.#reloadSafely(async () => wanted, "trial");
      this.#tell(result, "trial", by);
      return result;
    });
  }

  /** Resolves when the reload in progress is over. None begins after this, but tokens are still revoked. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#trials.end({ kind: "drained", reason: null, by: null });
    this.#options.files.onChange = () => void this.#workers.replace(null).catch(this.#logError);
    await this.#reloads.settled();
    for (const file of this.#watched) file?.close();
  }

  get #watched(): readonly (WatchedFile | null)[] {
    return [this.#configFile, ...this.#wrongFiles];
  }

  #ask({ cause, by }: ReloadOrigin, want: () => Promise<WantedReload>): Promise<ReloadResult> {
    const reload = async (): Promise<ReloadResult> => {
      if (this.#isClosed) return failed("the gateway is draining, so nothing is reloaded");
      const result = await this.#reloadSafely(want, cause);
      // The reload that was in progress may have taken over this change already.
      const isNews = !result.ok || result.isConfigRead || result.changed.length > 0;
      if (cause !== "file" || isNews) this.#tell(result, cause, by);
      return result;
    };
    return this.#reloads.reload(reload, cause !== "file");
  }

  #tell(...reload: Parameters<ReloadTelemetry["reloaded"]>): void {
    for (const { reloaded } of this.#listeners) reloaded?.(...reload);
  }

  /** Does something with the trial that is on now, unless it is over when it's time to. */
  async #onTrial<T>(work: (trial: OnTrial) => Promise<T>): Promise<T | null> {
    const trial = this.#trials.current;
    if (trial === null) return null;
    return this.#reloads.between(async () => (this.#isClosed || trial !== this.#trials.current ? null : work(trial)));
  }

  async #over(reason: "time" | "refused"): Promise<void> {
    const isKept = this.#trials.current?.terms.unconfirmed === "keep";
    await (reason === "time" && isKept ? this.confirm(null, reason) : this.takeBack(null, reason));
  }

  /** Loads the settings if `always`, or if their file or a file that kept them out of force has changed. */
  #load(asked: ReloadOrigin, always: boolean, terms: TrialTerms | null = null): WantedReload {
    const { cause } = asked;
    const now = { ...this.#wanted, ...asked, errors: [], isConfigRead: false, terms: null, takenBack: null };
    const isChanged = this.#watched.map((file) => file?.takeChange()).includes(true);
    if (this.#options.source === null || !(isChanged || always)) return now;
    const loaded = this.#options.source.load();
    if (!loaded.ok) return { ...now, errors: loaded.errors, isConfigRead: true };
    const { settings, place: locate, raw } = loaded;
    // A file that is saved during a trial, a comment added perhaps, is nobody's confirmation.
    const goingOn = cause === "file" ? (this.#trials.current?.terms ?? null) : null;
    const chosen = cause === "call" ? terms : (termsOf(settings) ?? goingOn);
    return { ...now, settings, locate, raw: { root: raw }, isConfigRead: true, terms: chosen };
  }

  /** A bug ends no process, and leaves the configuration as it is. */
  async #reloadSafely(want: () => Promise<WantedReload>, cause: ReloadCause): Promise<ReloadResult> {
    try {
      return await this.#reload(await want());
    } catch (error) {
      this.#logError(error);
      if (!(error instanceof NotPreparedError)) return failed("an internal error");
      // The watcher has reported this change, and does not report it again.
      if (cause === "file") await this.#loadSoon();
      return failed(error.message);
    }
  }

  async #reload(wanted: WantedReload): Promise<ReloadResult> {
    const { isConfigRead } = wanted;
    const { result, wrongFiles } = await this.#replace(wanted);
    if (isConfigRead) await this.#watchConfigFile(wrongFiles);
    this.#warnOfUnlisted();
    const errors = [...wanted.errors, ...result.errors];
    return { ...result, isConfigRead, errors, ok: errors.length + result.refused.length === 0 };
  }

  async #replace(wanted: WantedReload): Promise<Replaced> {
    const before = this.#workers.settings;
    const known = [...(this.#workers.listedTokens()?.names() ?? [])];
    const { settings, result } = this.#compare(wanted);
    const { changed } = result;
    const isSound = wanted.isConfigRead && wanted.errors.length === 0;
    const fallback = isSound ? this.#fallbackOf(wanted, changed) : null;
    // Each configuration that is read begins or ends a trial.
    const replaces = changed.length > 0 || (isSound && this.#trials.current !== null);
    try {
      const onTrial = fallback && settingsOnTrial(fallback.settings, wanted.terms, before);
      const files = await this.#putIntoForce(replaces ? settings : null, onTrial);
      const tokenNames = new Set([...known, ...(this.#workers.listedTokens()?.names() ?? [])]);
      const changes = changesAmong(changed, this.#wanted.raw, wanted.raw, tokenNames);
      this.#wanted = { settings: wanted.settings, locate: wanted.locate, raw: wanted.raw };
      if (isSound) {
        const differing = fallback && { fallback, ...differencesOnTrial(fallback, wanted, before, tokenNames) };
        this.#settleTrial(wanted, differing, onTrial);
      }
      return { result: withFiles({ ...result, changes }, files), wrongFiles: [] };
    } catch (error) {
      if (!(error instanceof FilesError)) throw error;
      const result = failed(...error.errors.map((each) => explain(each, wanted.locate)));
      return { result: withFiles(result, await this.#workers.replace(null)), wrongFiles: error.errors };
    }
  }

  /** Replaces the files of the admin listener and what carries the traffic together, or neither. */
  async #putIntoForce(settings: Settings | null, onTrial: SettingsOnTrial | null): Promise<FileChanges> {
    const prepared = settings === null ? null : await this.#options.adminFiles.prepare(settings.admin);
    const changes = await this.#workers.replace(settings, onTrial).catch((error) => {
      prepared?.drop();
      throw error;
    });
    prepared?.commit();
    return changes;
  }

  /** What comes back if the configuration is not confirmed. Null: it is not on trial. */
  #fallbackOf(wanted: WantedReload, changed: readonly string[]): WrittenSettings | null {
    if (wanted.terms === null) return null;
    const begins = changed.some((key) => !key.startsWith("reload."));
    const fallback = this.#trials.current?.fallback ?? (begins ? this.#wanted : null);
    return fallback && withReloadKeys(fallback, wanted);
  }

  #settleTrial(
    { terms, cause, by, takenBack }: WantedReload,
    differing: Pick<OnTrial, "fallback" | "changed" | "changes"> | null,
    onTrial: SettingsOnTrial | null,
  ): void {
    if (terms !== null && differing !== null) {
      this.#trials.begin({ ...differing, terms, cause, by }, onTrial?.judge ?? null);
    } else if (takenBack !== null) this.#trials.end({ kind: "taken_back", ...takenBack });
    else this.#trials.end({ kind: "confirmed", reason: "reload", by: null });
  }

  /** Warns of scopes and overrides that are not listed any more, in the words of `headgate check`. */
  #warnOfUnlisted(): void {
    const found = unlisted(this.#workers.settings, this.#workers.listedTokens());
    for (const { key, detail, id } of found) {
      if (this.#unlisted.has(id)) continue;
      this.#options.log.warn({ detail: `${this.#wanted.locate(key)}: ${detail}` }, "configuration warning");
    }
    this.#unlisted = new Set(found.map(({ id }) => id));
  }

  async #watchConfigFile(wrongFiles: readonly FileError[]): Promise<void> {
    const file = this.#workers.settings.reload.watch ? (this.#options.source?.file ?? null) : null;
    if (file === null) {
      this.#configFile?.close();
      this.#configFile = null;
    } else {
      this.#configFile ??= await this.#options.files.openFile(file);
    }
    for (const file of this.#wrongFiles) file.close();
    const { files } = this.#options;
    const open = (error: FileError) => files.openFile(error.file, error.kind === "unreadable" ? error.cause : null);
    this.#wrongFiles = await Promise.all((file === null ? [] : wrongFiles).map(open));
  }
}

/** Of what a signal or a change of the file reloads. */
function termsOf({ reload: { trial } }: Settings): TrialTerms | null {
  const { confirmWithinMs, unlessRefused: refusedShare, unconfirmed } = trial;
  return confirmWithinMs === null ? null : { confirmWithinMs, refusedShare, unconfirmed };
}

/** Puts the wanted keys under `reload` into the fallback: they are not on trial, so a take-back leaves them. */
function withReloadKeys(fallback: WrittenSettings, wanted: WrittenSettings): WrittenSettings {
  const settings = { ...fallback.settings, reload: wanted.settings.reload };
  const [old, now] = [fallback.raw?.root, wanted.raw?.root];
  if (old?.kind !== "mapping" || now?.kind !== "mapping") return { ...fallback, settings };
  const isReload = ({ key }: RawEntry): boolean => key === "reload";
  const entries = [...old.entries.filter((each) => !isReload(each)), ...now.entries.filter(isReload)];
  return { ...fallback, settings, raw: { root: { ...old, entries } } };
}

const byFile = { cause: "file", by: null } as const;

/** For settings that a program passes. */
function unwritten(settings: Settings): WrittenSettings {
  return { settings, locate: (key) => key, raw: null };
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

/** Returns what is on trial: the keys as they are written, or those of the settings that a program has passed. */
function differencesOnTrial(
  fallback: WrittenSettings,
  { settings, raw }: WrittenSettings,
  inForce: Settings,
  tokenNames: ReadonlySet<string>,
): Pick<ReloadTrial, "changed" | "changes"> {
  const before = withoutRestart(fallback.settings, inForce).settings;
  const now = withoutRestart(settings, inForce).settings;
  const keys = changedKeys(before, now);
  const changes = changesAmong(keys, fallback.raw, raw, tokenNames);
  return { changed: changes.length === 0 ? keys : changes.map(({ key }) => key), changes };
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

const noChange: ReloadResult = {
  ...{ ok: true, isConfigRead: false },
  ...{ changed: [], changes: [], loosened: [], reset: [], hasStore: false, restart: [], errors: [], refused: [] },
};

/** Paths and contents of files stay out of the log. */
function explain(error: FileError, locate: Locate): string {
  if (error.kind === "unreadable") return `${locate(error.key)}: cannot be read: ${failureCode(error.cause)}`;
  const { key, line, found, expected } = error;
  return `${locate(key)}: ${line === undefined ? "" : `line ${line} of the file: `}found ${found}, expected ${expected}`;
}

/** Carries out one reload after the other. Of reloads that are asked for while one runs, the last is carried out for all. */
class OneAtATime {
  readonly #turn = new InTurn();
  /** Waits for its turn, as the last that was asked for; null: there is none, or something else follows it. */
  #waiting: { work: () => Promise<ReloadResult>; readonly done: Promise<ReloadResult> } | null = null;

  /**
   * A reload that is replaced by a later one before it has begun resolves with the result of the later one.
   * `replaces`: false for one that is part of any other.
   */
  reload(work: () => Promise<ReloadResult>, replaces: boolean): Promise<ReloadResult> {
    if (this.#waiting !== null) {
      if (replaces) this.#waiting.work = work;
      return this.#waiting.done;
    }
    const done: Promise<ReloadResult> = this.#turn.do(() => {
      if (this.#waiting === own) this.#waiting = null;
      return own.work();
    });
    const own = { work, done };
    this.#waiting = own;
    return done;
  }

  /** Does something between two reloads, which replaces none of them. */
  between<T>(work: () => Promise<T>): Promise<T> {
    this.#waiting = null;
    return this.#turn.do(work);
  }

  /** Resolves when all that was asked for is over. */
  settled(): Promise<void> {
    return this.#turn.over();
  }
}
