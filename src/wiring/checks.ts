// What the listeners for checks of an ingress take from the settings: the same rules, counters and authenticator as the
// traffic, and who may ask.
import { isDeepStrictEqual } from "node:util";
import type { TokenList } from "../auth/token-list.ts";
import { networkOf } from "../config/addresses.ts";
import type { Watched } from "../core/file-group.ts";
import { NetworkSet } from "../core/network-set.ts";
import type { Settings } from "../core/settings.ts";
import type { CheckSettings } from "../ext-auth/check-settings.ts";
import { TrustedCallers } from "../ext-auth/trusted-callers.ts";
import type { Logger } from "../telemetry/log.ts";
import { type CheckParts, type CheckRuntimes, createCheckRuntimes } from "./runtime.ts";

export interface CheckConfiguration extends Pick<CheckRuntimes, "runtime" | "quotaRuntime"> {
  readonly settings: CheckSettings;
}

/** What was in force before a reload. */
interface Before {
  readonly settings: Settings;
  readonly files: { readonly secrets: Watched<TokenList> | null };
  readonly checks: CheckConfiguration | null;
}

/** Null: there are no listeners for checks. */
export function configureChecks(
  settings: Settings,
  parts: CheckParts,
  secrets: Watched<TokenList> | null,
  before: Before | null,
): CheckConfiguration | null {
  const { extAuth, timeouts } = settings;
  if (!hasChecks(settings)) return null;
  const { clientAddress, runtime, quotaRuntime } = createCheckRuntimes(parts);
  const known = before?.checks?.settings.callers;
  const areSameCallers =
    before?.files.secrets === secrets &&
    isDeepStrictEqual(before?.settings.extAuth.trustedCallers, settings.extAuth.trustedCallers);
  return {
    runtime,
    quotaRuntime,
    settings: {
      callers: known !== undefined && areSameCallers ? known : createCallers(settings, secrets, parts),
      clientAddress,
      denyStatus: extAuth.denyStatus,
      policyNames: parts.quotas.policyNames,
      headTimeoutMs: timeouts.headMs,
      keepAliveTimeoutMs: timeouts.keepAliveMs,
      maxConnections: { http: extAuth.http?.maxConnections ?? 0, grpc: extAuth.grpc?.maxConnections ?? 0 },
    },
  };
}

function hasChecks({ extAuth }: Settings): boolean {
  return extAuth.http !== null || extAuth.grpc !== null;
}

function createCallers(
  { extAuth }: Settings,
  secrets: Watched<TokenList> | null,
  { log }: { readonly log: Logger },
): TrustedCallers {
  return new TrustedCallers({
    networks: new NetworkSet(extAuth.trustedCallers.map(networkOf)),
    isSecret: secrets === null ? null : (text) => secrets.value.has(text),
    onFirstCallsRefused(caller, calls) {
      const keys = ["extAuth.trustedCallers", "extAuth.secretsFile"];
      log.warn(
        { keys, caller, calls },
        "every ext-auth call so far was refused: extAuth.trustedCallers and extAuth.secretsFile do not allow this caller",
      );
    },
  });
}
