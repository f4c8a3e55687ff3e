// Makes the limiter from the settings.
import type { Clock } from "../core/clock.ts";
import type { Settings } from "../core/settings.ts";
import { PolicyLimiter } from "../limits/policy-limiter.ts";

type LimiterSettings = Pick<Settings, "policies" | "enforcement" | "basePath" | "auth" | "fields">;

/** `previous`: the limiter before a reload, whose counters go on; null at the start. */
export function createLimiter(settings: LimiterSettings, clock: Clock, previous: PolicyLimiter | null): PolicyLimiter {
  const { policies, ...options } = limiterSettings(settings);
  return new PolicyLimiter(policies, { ...options, clock, previous });
}

/** What the limiter depends on. */
export function limiterSettings({ policies, enforcement, basePath, auth, fields }: LimiterSettings) {
  const listAll = fields.includes("structured");
  return { policies, enforcement, basePath, tokensAreVerified: auth.mode === "tokens", listAll };
}
