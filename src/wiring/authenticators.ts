// Opens the authenticator of `auth.mode`, and the secrets of callers for ext-auth.
import { offAuthenticator, presenceAuthenticator } from "../auth/presence.ts";
import { createTokenListAuthenticator, type TokenList } from "../auth/token-list.ts";
import { tokensFile } from "../auth/tokens-file.ts";
import type { Authenticator } from "../core/authenticator.ts";
import type { Files, Watched } from "../core/file-group.ts";
import type { Settings } from "../core/settings.ts";
import { createFileLog } from "../telemetry/file-log.ts";
import type { Logger } from "../telemetry/log.ts";

export interface FilesAndLog {
  readonly files: Files;
  /** For reloads and errors of files. */
  readonly log: Logger;
}

/** Rejects with a FilesError. */
export async function createAuthenticator(
  { auth }: Pick<Settings, "auth">,
  { files, log }: FilesAndLog,
): Promise<Authenticator> {
  switch (auth.mode) {
    case "off":
      return offAuthenticator;
    case "presence":
      return presenceAuthenticator;
    case "tokens": {
      const events = createFileLog<TokenList>(log, "tokens file", ({ size }) => ({ tokens: size }));
      return createTokenListAuthenticator(await files.open(tokensFile("auth.tokensFile", auth.tokensFile), events));
    }
  }
}

/** Null without secrets, or without a listener for checks. Rejects with a FilesError. */
export async function openSecrets(
  { extAuth }: Pick<Settings, "extAuth">,
  { files, log }: FilesAndLog,
): Promise<Watched<TokenList> | null> {
  if (extAuth.secretsFile === null || (extAuth.http === null && extAuth.grpc === null)) return null;
  const events = createFileLog<TokenList>(log, "secrets file", ({ size }) => ({ secrets: size }));
  return files.open(tokensFile("extAuth.secretsFile", extAuth.secretsFile), events);
}
