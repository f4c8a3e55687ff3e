// Logs each change of the rules, one line for each. Names of tokens and subjects stand there as in the access log.
import type { RuleEvent, RuleKeeper, RuleSubject } from "../core/rules.ts";
import type { Settings } from "../core/settings.ts";
import type { SipHash } from "../limits/table/sip-hash.ts";
import type { Logger } from "../telemetry/log.ts";
import { loggedName } from "./runtimes.ts";

interface RuleLogContext {
  readonly log: Logger;
  /** In force. */
  readonly settings: () => Pick<Settings, "log">;
  readonly keyHash: SipHash;
}

export function logRules(
  rules: Pick<RuleKeeper, "onChange" | "isShared">,
  { log, settings, keyHash }: RuleLogContext,
): void {
  const nameOf = ({ kind, value }: RuleSubject): string | null =>
    kind === "client" ? value : loggedName(value, settings().log.subject, keyHash);
  rules.onChange(({ kind, rule, by, isForeign }: RuleEvent) => {
    const { id, action, policy, limit, about, endsMs, setBy } = rule;
    const until = new Date(endsMs).toISOString();
    const facts = { id, action, policy, limit, about: { [about.kind]: nameOf(about) }, until, setBy, by };
    log.info({ ...facts, isForeign, isShared: rules.isShared(id) }, `rule ${kind}`);
  });
}
