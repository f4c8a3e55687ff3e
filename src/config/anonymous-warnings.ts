// Quotas by token that also count requests without one. A part of a key that a request lacks is replaced by the client, so
// each address without a token has a quota of its own, as large as that of a token, and all behind it share it.
import { describeRate, rated } from "./policy-rates.ts";
import type { WarnedSettings } from "./warned-settings.ts";

export function anonymousWarnings({ policies, auth }: WarnedSettings): string[] {
  // Policies by verified tokens are asked when requests without one have been refused.
  if (auth.mode !== "off" && auth.mode !== "presence") return [];
  const quotas = policies.filter(({ mode, rate }) => mode === "enforce" && rate.kind !== "concurrency");
  const byToken = quotas.filter(({ key }) => key.some(({ kind }) => kind === "token"));
  return byToken.map(
    (policy) =>
      `policy ${policy.name}: requests without a token are counted too: ` +
      `each address that sends none has ${describeRate(rated(policy))}`,
  );
}
