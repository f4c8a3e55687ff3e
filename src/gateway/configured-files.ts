// Opens the files that the settings name. A reload keeps those that the settings name as before.
import type { SecureContext } from "node:tls";
import { isDeepStrictEqual } from "node:util";
import { createAuthenticator, endingSoon } from "../auth/authenticator.ts";
import { secretsFile, type TokenList, tokensFile } from "../auth/tokens-file.ts";
import { type Authenticator, verifiesTokens } from "../core/authentication.ts";
import { type Clock, httpDate } from "../core/clock.ts";
import type { FileGroup, Files, Watched } from "../core/file-group.ts";
import type { Certificate, CertificateInUse, RequestSettings, Settings } from "../core/settings.ts";
import { upstreamTargets } from "../core/upstream.ts";
import { createFileLog, type Logger } from "../telemetry/log.ts";
import type { ThreadContext } from "./thread-context.ts";

export interface ConfiguredFiles {
  /** Null: connections to the upstream are plain. */
  readonly upstreamTls: Watched<SecureContext> | null;
  readonly authenticator: Authenticator;
  /** Null: connections are plain. */
  readonly certificate: Watched<Certificate> | null;
  /** Null: ingresses are known by their addresses alone. */
  readonly secrets: Watched<TokenList> | null;
}

/** What a thread needs to open files: of one that carries traffic, or of the main thread beside those. */
export type FilesContext = Pick<ThreadContext, "clock" | "notices" | "authenticator"> & { readonly files: Files };

/** Rejects with a FilesError, with everything closed that was opened. */
export async function openConfiguredFiles(
  settings: Settings,
  { files, notices: { files: log }, clock, authenticator }: FilesContext,
  before: { readonly settings: Settings; readonly files: ConfiguredFiles } | null,
): Promise<ConfiguredFiles> {
  return openFiles<Settings, ConfiguredFiles>(settings, before, {
    // They are kept together with the upstream, which is made anew if any of its settings has changed.
    upstreamTls: [upstreamSettings, () => openUpstreamTls(settings, files, log)],
    authenticator: [
      ({ auth }) => [verifiesTokens(auth), auth.tokensFile],
      async () => authenticator ?? openAuthenticator(settings, files, log, clock),
    ],
    certificate: [({ listen: { tls } }) => tls, () => openCertificate(settings, files, log, clock)],
    secrets: [({ extAuth }) => extAuth.secretsFile, () => openSecrets(settings, files, log)],
  });
}

/** Returns what was before if a part of its settings is still the same; else null. */
export function ifSame<S, Before extends { readonly settings: S }>(
  before: Before | null,
  settings: S,
  partOf: (settings: S) => unknown,
): Before | null {
  return before !== null && isDeepStrictEqual(partOf(before.settings), partOf(settings)) ? before : null;
}

/** For each file, the part of the settings that it depends on, and how it is opened. */
type Openers<S, Files> = {
  readonly [Name in keyof Files]: readonly [partOf: (settings: S) => unknown, open: () => Promise<Files[Name]>];
};

type Closed<Files> = { readonly [Name in keyof Files]?: { close(): void } | null };

/** Opens files in order, but for those that are kept. Rejects with everything closed that was opened. */
export async function openFiles<S, Files extends Closed<Files>>(
  settings: S,
  before: { readonly settings: S; readonly files: Files } | null,
  openers: Openers<S, Files>,
): Promise<Files> {
  const files: Partial<Files> = {};
  try {
    for (const name of Object.keys(openers) as (keyof Files)[]) {
      const [partOf, open] = openers[name];
      const same = ifSame(before, settings, partOf);
      files[name] = same === null ? await open() : same.files[name];
    }
    return files as Files;
  } catch (error) {
    closeFiles(files, before?.files ?? null);
    throw error;
  }
}

/** For the metrics. */
export function certificateInUse({ certificate }: ConfiguredFiles): CertificateInUse | null {
  return certificate && { expiresMs: certificate.value.expiresMs, isCurrent: certificate.isCurrent };
}

/** Closes the files that are not among those of `kept`. */
export function closeFiles<Files extends Closed<Files>>(files: Files, kept: Files | null): void {
  for (const name of Object.keys(files) as (keyof Files)[]) {
    if (files[name] !== kept?.[name]) files[name]?.close();
  }
}

/** `log` is for reloads and errors of files. Rejects with a FilesError. */
export async function openAuthenticator(
  { auth }: RequestSettings,
  files: Files,
  log: Logger,
  clock: Clock,
): Promise<Authenticator> {
  if (!verifiesTokens(auth)) return createAuthenticator(null, clock);
  const events = createFileLog<TokenList>(log, "tokens file", ({ size }) => ({ tokens: size }));
  const warn = (list: TokenList): void => {
    const ending = endingSoon(list, clock);
    const shown = ending.slice(0, maxNamed).map(({ tokenName, endsMs }) => ({
      ...{ name: tokenName, expires: endsMs === null ? null : httpDate(endsMs) },
    }));
    if (ending.length > 0) log.warn({ tokens: shown, ending: ending.length }, "listed tokens end soon, or have ended");
  };
  const onReload = (list: TokenList): void => {
    events.onReload(list);
    warn(list);
  };
  const file = await files.open(tokensFile("auth.tokensFile", auth.tokensFile), { ...events, onReload });
  warn(file.value);
  const daily = setInterval(() => warn(file.value), 86_400_000).unref();
  const authenticator = createAuthenticator(file, clock);
  return {
    ...authenticator,
    close() {
      clearInterval(daily);
      authenticator.close();
    },
  };
}

/** A line of the log names at most so many tokens. */
const maxNamed = 20;

/** Null without secrets, or without a listener for checks. Rejects with a FilesError. */
async function openSecrets({ extAuth }: Settings, files: Files, log: Logger): Promise<Watched<TokenList> | null> {
  if (extAuth.secretsFile === null || (extAuth.http === null && extAuth.grpc === null)) return null;
  const events = createFileLog<TokenList>(log, "secrets file", ({ size }) => ({ secrets: size }));
  return files.open(secretsFile("extAuth.secretsFile", extAuth.secretsFile), events);
}

/** Null without TLS. Rejects with a FilesError. */
async function openCertificate(
  { listen }: Settings,
  files: Files,
  log: Logger,
  clock: Clock,
): Promise<Watched<Certificate> | null> {
  if (listen.tls === null) return null;
  const { listenTlsFiles } = await import("../config/tls-files.ts");
  return watchCertificate(listenTlsFiles(listen.tls), "certificate files", { files, log, clock });
}

/**
 * Opens a certificate, and warns if it ends soon, now and after each reload. Rejects with a FilesError. `others`: facts for
 * each line of the log about it.
 */
export async function watchCertificate(
  group: FileGroup<Certificate>,
  name: string,
  { files, log, clock }: { readonly files: Files; readonly log: Logger; readonly clock: Clock },
  others: Readonly<Record<string, string>> = {},
): Promise<Watched<Certificate>> {
  const { certificateWarning } = await import("../config/tls-files.ts");
  const facts = ({ expiresMs }: Certificate) => ({ ...others, expires: httpDate(expiresMs) });
  const warn = (certificate: Certificate): void => {
    const warning = certificateWarning(certificate, clock.wallMs());
    if (warning !== null) log.warn(facts(certificate), `the certificate ${warning}`);
  };
  const events = createFileLog(log, name, facts);
  const onReload = (certificate: Certificate): void => {
    events.onReload(certificate);
    warn(certificate);
  };
  const certificate = await files.open(group, { ...events, onReload });
  warn(certificate.value);
  return certificate;
}

/** The settings of the upstream: a reload that changes none of them keeps it, and its files. */
export function upstreamSettings({ upstream, upgrade }: Settings) {
  const { maxTunnels, idleTimeoutMs } = upgrade;
  return { upstream, limits: { maxTunnels, idleTimeoutMs } };
}

/** Null: the upstream's URL is plain http. Rejects with a FilesError. */
async function openUpstreamTls(
  { upstream }: Settings,
  files: Files,
  log: Logger,
): Promise<Watched<SecureContext> | null> {
  if (!upstreamTargets(upstream.url, upstream.addresses).isTls) return null;
  const { outboundTlsFiles: clientTlsFiles } = await import("../config/tls-files.ts");
  return files.open(
    clientTlsFiles("upstream.tls", upstream.tls),
    createFileLog<SecureContext>(log, "files of upstream.tls"),
  );
}
