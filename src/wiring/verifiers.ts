// Who is asked about tokens and secrets, made from the settings, with what the log is told of the files behind them.
import { offVerifier, presenceVerifier } from "../auth/presence.ts";
import { TokenFileProblem, verifyByTokensFile } from "../auth/tokens-file-verifier.ts";
import { readRegularFile } from "../config/regular-file.ts";
import { failureCode } from "../core/failure.ts";
import type { Settings } from "../core/settings.ts";
import type { Verifier } from "../core/verifier.ts";
import type { Logger } from "../telemetry/log.ts";

/** Rejects with a TokenFileProblem. */
export async function createVerifier({ auth }: Settings, log: Logger): Promise<Verifier> {
  switch (auth.mode) {
    case "off":
      return offVerifier;
    case "presence":
      return presenceVerifier;
    case "tokens":
      return verifyByTokensFile(auth.tokensFile ?? "", readRegularFile, fileEvents("tokens", log));
  }
}

/** Null: nobody is known by a secret. Rejects with a TokenFileProblem. */
export async function openSecrets({ decision }: Settings, log: Logger): Promise<Verifier | null> {
  if (decision.secretsFile === null) return null;
  return verifyByTokensFile(decision.secretsFile, readRegularFile, fileEvents("secrets", log)).catch((cause) => {
    if (cause instanceof TokenFileProblem) throw new TokenFileProblem(cause.why, "decision.secretsFile");
    throw cause;
  });
}

function fileEvents(holds: "tokens" | "secrets", log: Logger): Parameters<typeof verifyByTokensFile>[2] {
  return {
    onReload: (listed) => log.info({ [holds]: listed }, `${holds} file reread`),
    onError: (why) => {
      // Not the error itself, whose words hold the path and whose stack speaks of nothing but this code.
      const facts = why.kind === "invalid" ? { errors: why.errors } : { code: failureCode(why.cause) };
      log.error(facts, `${holds} file not usable, the ${holds} from before stay in use`);
    },
  };
}
