// Counts and logs reloads: the cause, what was wrong or has changed, and what an operator has to know about it.
import type { Clock } from "../core/clock.ts";
import {
  describeChange,
  type ReloadCause,
  type ReloadResult,
  type SettingChange,
  type TrialEvent,
} from "../core/reload.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";

export interface Reloads {
  reloaded(result: ReloadResult, cause: ReloadCause): void;
  /** A trial has begun or is over. */
  trialChanged(event: TrialEvent): void;
}

/** The first configuration has just been loaded. */
export function createReloads(
  { log, clock }: { readonly log: Logger; readonly clock: Clock },
  metrics: Metrics,
): Reloads {
  metrics.configLoaded(clock.wallMs());
  return {
    reloaded(result, cause) {
      metrics.reloaded(result);
      if (result.isConfigRead && result.errors.length === 0) metrics.configLoaded(clock.wallMs());
      logReload(log, result, cause);
    },
    trialChanged(event) {
      metrics.trialChanged(event);
      logTrial(log, event);
    },
  };
}

/** Files that are missing or wrong have a line of their own. */
function logReload(log: Logger, result: ReloadResult, by: ReloadCause): void {
  const { isConfigRead, changed, reset, restart, errors, refused } = result;
  for (const error of errors) log.error({ error }, "configuration error");
  if (errors.length > 0) log.error({ by, errors: errors.length }, "reload failed, the configuration is not changed");
  const needsRestart = isConfigRead && restart.length > 0;
  if (changed.length > 0) logChanges(log, result, by);
  else if (errors.length + refused.length === 0) {
    if (needsRestart) log.info({ by }, "reloaded, all changes need a restart");
    else log.info({ by }, "reloaded, nothing has changed");
  }
  if (reset.length > 0) logReset(log, result);
  if (needsRestart) log.warn({ keys: restart }, "restart required: these keys keep their old values until then");
}

function logTrial(log: Logger, { kind, reason, trial }: TrialEvent): void {
  const { endsMs, refusedShare, unconfirmed, judged, refused } = trial;
  switch (kind) {
    case "begun":
      log.info({ ends: new Date(endsMs).toISOString(), unconfirmed, refusedShare }, "reload on trial begun");
      return;
    case "confirmed":
      log.info({ reason, judged, refused }, "reload on trial confirmed");
      return;
    case "taken_back":
      log.warn({ reason, judged, refused }, "reload on trial taken back, the file has other values than are in force");
      return;
    case "drained":
      log.warn({ judged, refused }, "reload on trial ended by the drain, a start uses what the file has");
  }
}

function logChanges(log: Logger, { changed, changes, hasStore, loosened }: ReloadResult, by: ReloadCause): void {
  const fields = { by, changed, ...valuesOf(changes, hasStore) };
  if (loosened.length === 0) log.info(fields, "reloaded");
  else log.warn({ ...fields, loosened }, "reloaded");
}

function logReset(log: Logger, { reset: policies, hasStore }: ReloadResult): void {
  if (hasStore)
    log.warn({ policies }, "policies start with what the store has of them: their name, kind or key is new");
  else log.warn({ policies }, "policies start empty: their name, kind or key is new");
}

const maxChanges = 100;
const maxShown = 200;

/** As many as are logged, with their values as they are logged. */
export function shownChanges(changes: readonly SettingChange[]): SettingChange[] {
  return changes.slice(0, maxChanges).map(shortened);
}

/** Each key with its value before and after, as `headgate check --diff` prints it. */
function valuesOf(changes: readonly SettingChange[], hasStore: boolean): { readonly values?: readonly string[] } {
  if (changes.length === 0) return {};
  const lines = shownChanges(changes).map((change) => describeChange(change, hasStore));
  return { values: changes.length > maxChanges ? [...lines, `${changes.length - maxChanges} more`] : lines };
}

/** Shortens long values. Of two, shows the part where they begin to differ. */
function shortened({ key, from, to }: SettingChange): SettingChange {
  const [a, b] = [from ?? "", to ?? ""];
  let same = 0;
  while (same < a.length && a[same] === b[same]) same += 1;
  const isLong = Math.max(a.length, b.length) > maxShown;
  const start = isLong && from !== null && to !== null ? Math.max(0, same - maxShown / 4) : 0;
  const show = (text: string): string => {
    const shown = text.slice(start, start + maxShown);
    return `${start > 0 ? "…" : ""}${shown}${start + maxShown < text.length ? "…" : ""}`;
  };
  return { key, from: from === null ? null : show(from), to: to === null ? null : show(to) };
}
