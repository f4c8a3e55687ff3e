// The log lines about a reload: what was wrong, what has changed and by what, and what an operator has to know of it.
import type { ReloadCause, ReloadResult } from "../core/reload.ts";
import type { Logger } from "./log.ts";

/** Files that are missing or wrong have a line of their own. */
export function logReload(log: Logger, result: ReloadResult, by: ReloadCause): void {
  const { isConfigRead, changed, reset, restart, errors, refused } = result;
  for (const error of errors) log.error({ error }, "configuration error");
  if (errors.length > 0) log.error({ by, errors: errors.length }, "reload failed, the configuration is not changed");
  if (changed.length > 0) log.info({ by, changed }, "reloaded");
  else if (errors.length + refused.length === 0) log.info({ by }, "reloaded, nothing has changed");
  if (reset.length > 0) log.warn({ policies: reset }, "policies start empty: their name, kind or key is new");
  if (isConfigRead && restart.length > 0)
    log.warn({ keys: restart }, "restart required: these keys keep their old values until then");
}
