// Who is asked about tokens and secrets, made from the settings, with what the log is told of the files behind them.
import { offVerifier, presenceVerifier } from "../auth/presence.ts";
import { TokenFileProblem, verifyByTokensFile } from "../auth/tokens-file-authenticator.ts";
import { readRegularFile } from "../config/regular-file.ts";
import type { Authenticator } from "../core/authenticator.ts";
import { failureCode } from "../core/failure.ts";
import type { Settings } from "../core/settings.ts";
import type { Logger } from "../telemetry/log.ts";

/** Rejects with a TokenFileProblem. */
export async function createAuthenticator({ auth }: Settings, log: Logger): Promise<Authenticator> {
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
export async function openSecrets({ extAuth }: Settings, log: Logger): Promise<Authenticator | null> {
  if (extAuth.secretsFile === null) return null;
  return verifyByTokensFile(extAuth.secretsFile, readRegularFile, fileEvents("secrets", log)).catch((cause) => {
    if (cause instanceof TokenFileProblem) throw new TokenFileProblem(cause.why, "extAuth.secretsFile");
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
