// Finds quotas by token that also count requests without a token. A part of a key that a request lacks is replaced by the
// client. So each address that sends no token has a quota as large as that of a token, shared by all clients behind it.
import { rated, rateInWords } from "./policy-rates.ts";
import type { WarnedSettings } from "./warned-settings.ts";

export function anonymousWarnings({ policies, auth }: WarnedSettings): string[] {
  // In mode `tokens`, these policies are asked after the token check, which refuses requests without a token.
  if (auth.mode !== "off" && auth.mode !== "presence") return [];
  const quotas = policies.filter(({ mode, rate }) => mode === "enforce" && rate.kind !== "concurrency");
  const byToken = quotas.filter(({ key }) => key.some(({ kind }) => kind === "token"));
  return byToken.map(
    (policy) =>
      `policy ${policy.name}: requests without a token are counted too: ` +
      `each address that sends none has ${rateInWords(rated(policy))}`,
  );
}
