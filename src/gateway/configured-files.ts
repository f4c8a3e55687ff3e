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
      upstreamTls: await keptOrOpened("upstreamTls", upstreamSettings, () => openUpstreamTls(settings, files, log)),
      authenticator: await keptOrOpened(
        "authenticator",
        ({ auth }) => [verifiesTokens(auth), auth.tokensFile],
        async () => authenticator ?? openAuthenticator(settings, files, log, clock),
      ),
      certificate: await keptOrOpened(
        "certificate",
        ({ listen: { tls } }) => tls,
        () => openCertificate(settings, files, log, clock),
      ),
      secrets: await keptOrOpened(
        "secrets",
        ({ extAuth }) => extAuth.secretsFile,
        () => openSecrets(settings, files, log),
      ),
    };
  } catch (error) {
    for (const part of opened) part.close();
    throw error;
  }
}

/** For the metrics. */
export function certificateInUse({ certificate }: ConfiguredFiles): CertificateInUse | null {
  return certificate && { expiresMs: certificate.value.expiresMs, isCurrent: certificate.isCurrent };
}

/** Closes the files that are not among those of `kept`. */
export function closeFiles(files: ConfiguredFiles, kept: ConfiguredFiles | null): void {
  for (const part of ["upstreamTls", "authenticator", "certificate", "secrets"] as const) {
    if (files[part] !== kept?.[part]) files[part]?.close();
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
