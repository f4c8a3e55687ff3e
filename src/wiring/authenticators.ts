// Opens the authenticator of `auth.mode`, and the secrets of callers for ext-auth.
import { offAuthenticator, presenceAuthenticator } from "../auth/presence.ts";
import { createTokenListAuthenticator, type TokenList } from "../auth/token-list.ts";
import { tokensFile } from "../auth/tokens-file.ts";
import { watchFiles } from "../config/watched-files.ts";
import type { Authenticator } from "../core/authenticator.ts";
import type { Watched } from "../core/file-group.ts";
import type { Settings } from "../core/settings.ts";
import { createFileLog } from "../telemetry/file-log.ts";
import type { Logger } from "../telemetry/log.ts";

/** Rejects with a FilesError. */
export async function createAuthenticator({ auth }: Pick<Settings, "auth">, log: Logger): Promise<Authenticator> {
  switch (auth.mode) {
    case "off":
      return offAuthenticator;
    case "presence":
      return presenceAuthenticator;
    case "tokens": {
      const events = createFileLog<TokenList>(log, "tokens file", ({ size }) => ({ tokens: size }));
      return createTokenListAuthenticator(await watchFiles(tokensFile("auth.tokensFile", auth.tokensFile), events));
    }
  }
}

/** Null: there are no secrets, or nobody asks. Rejects with a FilesError. */
export async function openSecrets(
  { extAuth }: Pick<Settings, "extAuth">,
  log: Logger,
): Promise<Watched<TokenList> | null> {
  if (extAuth.secretsFile === null || (extAuth.http === null && extAuth.grpc === null)) return null;
  const events = createFileLog<TokenList>(log, "secrets file", ({ size }) => ({ secrets: size }));
  return watchFiles(tokensFile("extAuth.secretsFile", extAuth.secretsFile), events);
}
