// Opens the files that the settings name. A reload keeps those that the settings name as before.
import type { SecureContext } from "node:tls";
import { isDeepStrictEqual } from "node:util";
import type { TokenList } from "../auth/token-list.ts";
import type { Authenticator } from "../core/authenticator.ts";
import type { Clock } from "../core/clock.ts";
import type { Watched } from "../core/file-group.ts";
import type { Settings } from "../core/settings.ts";
import type { Certificate } from "../core/tls.ts";
import { createAuthenticator, type FilesAndLog, openSecrets } from "./authenticators.ts";
import { openCertificate } from "./certificate.ts";
import { openUpstreamTls, upstreamSettings } from "./upstream.ts";

export interface ConfiguredFiles {
  /** Null: connections to the upstream are plain. */
  readonly upstreamTls: Watched<SecureContext> | null;
  readonly authenticator: Authenticator;
  /** Null: connections are plain. */
  readonly certificate: Watched<Certificate> | null;
  /** Null: ingresses are known by their addresses alone. */
  readonly secrets: Watched<TokenList> | null;
}

/** Those before a reload. */
export interface FilesBefore {
  readonly settings: Settings;
  readonly files: ConfiguredFiles;
}

export interface FilesBase extends FilesAndLog {
  readonly clock: Clock;
  /** Used in place of the one of the settings. */
  readonly authenticator: Authenticator | undefined;
}

/** Rejects with a FilesError, with everything closed that was opened. */
export async function openConfiguredFiles(
  settings: Settings,
  base: FilesBase,
  before: FilesBefore | null,
): Promise<ConfiguredFiles> {
  const opened: { close(): void }[] = [];
  const keptOrOpened = async <K extends keyof ConfiguredFiles>(
    name: K,
    partOf: (settings: Settings) => unknown,
    open: () => Promise<ConfiguredFiles[K]>,
  ): Promise<ConfiguredFiles[K]> => {
    if (before !== null && isDeepStrictEqual(partOf(before.settings), partOf(settings))) return before.files[name];
    const made = await open();
    if (made !== null) opened.push(made);
    return made;
  };
  try {
    return {
      // They are kept together with the upstream, which is made anew if any of its settings has changed.
      upstreamTls: await keptOrOpened("upstreamTls", upstreamSettings, () => openUpstreamTls(settings, base)),
      authenticator: await keptOrOpened(
        "authenticator",
        ({ auth: { mode, tokensFile } }) => [mode, tokensFile],
        async () => base.authenticator ?? createAuthenticator(settings, base),
      ),
      certificate: await keptOrOpened(
        "certificate",
        ({ listen: { tls } }) => tls && [tls.cert, tls.key, tls.clientCa],
        () => openCertificate(settings, base),
      ),
      secrets: await keptOrOpened(
        "secrets",
        ({ extAuth }) => extAuth.secretsFile,
        () => openSecrets(settings, base),
      ),
    };
  } catch (error) {
    for (const part of opened) part.close();
    throw error;
  }
}

/** Closes the files that are not among those of `kept`. */
export function closeFiles(files: ConfiguredFiles, kept: ConfiguredFiles | null): void {
  for (const part of ["upstreamTls", "authenticator", "certificate", "secrets"] as const) {
    if (files[part] !== kept?.[part]) files[part]?.close();
  }
}
