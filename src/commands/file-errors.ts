// Whether the files that the configuration names can be used, before anything is opened: one line for each error, in the
// style of the configuration's own.
import { isAbsolute, relative } from "node:path";
import type { TokenList } from "../auth/token-list.ts";
import { secretsFile, tokensFile, writtenEnd } from "../auth/tokens-file.ts";
import { explainReadFailure, readFiles } from "../config/files.ts";
import type { NamedFiles } from "../config/load.ts";
import { enumerate } from "../config/written.ts";
import { endingSoonMs } from "../core/authenticator.ts";
import type { FileError, FileGroup } from "../core/file-group.ts";
import { passwordIn } from "../core/password.ts";

interface FilesJudged {
  readonly errors: readonly string[];
  /** Of files that can be used. */
  readonly warnings: readonly string[];
  /** Null if there is no list, or none that can be used. */
  readonly tokens: TokenList | null;
}

export async function judgeFiles(files: NamedFiles, cwd: string, wallMs: number): Promise<FilesJudged> {
  const { path, place } = files;
  const tls = await judgeTlsFiles(files, wallMs);
  const tokensPath = path("auth.tokensFile");
  const tokens = await readFiles(tokensFile("auth.tokensFile", tokensPath));
  const errors = [
    ...(tokens.ok ? [] : tokens.errors),
    ...(await errorsOf(secretsFile("extAuth.secretsFile", path("extAuth.secretsFile")))),
    ...tls.certificate,
    ...tls.upstream,
    ...(await errorsOf(passwordFile("counters.redis.passwordFile", path("counters.redis.passwordFile")))),
    ...tls.store,
  ];
  const warnings = [
    ["auth.tokensFile", tokens.ok ? endingWarning(tokens.value, wallMs) : null],
    ["listen.tls.cert", tls.warning === null ? null : `the certificate ${tls.warning}`],
  ] as const;
  return {
    errors: errors.map((error) => render(error, place(error.key), nameFrom(cwd, error.file))),
    warnings: warnings.flatMap(([key, warning]) =>
      warning === null ? [] : [`${place(key)}: ${nameFrom(cwd, path(key) ?? "")}: warning: ${warning}`],
    ),
    tokens: tokens.ok && tokensPath !== null ? tokens.value : null,
  };
}

/** So many tokens are named at most. */
const maxNamed = 20;

/** Names are quoted as JSON, because a comment may have any characters. */
function endingWarning(list: TokenList, wallMs: number): string | null {
  const ending = list.endingBefore(wallMs + endingSoonMs);
  if (ending.length === 0) return null;
  const shown = ending.slice(0, maxNamed).map(({ tokenName, endsMs }) => {
    const name = tokenName === null ? "one without a name" : JSON.stringify(tokenName);
    return endsMs === null ? name : `${name} (${writtenEnd(endsMs)})`;
  });
  if (ending.length > maxNamed) shown.push(`${ending.length - maxNamed} more`);
  return `listed tokens end soon, or have ended: ${enumerate(shown, "and")}`;
}

interface TlsJudged {
  readonly certificate: readonly FileError[];
  readonly upstream: readonly FileError[];
  readonly store: readonly FileError[];
  /** Of a certificate that can be used. */
  readonly warning: string | null;
}

/** Imports TLS only if files of it are named, because a start without it is faster. */
async function judgeTlsFiles({ path }: NamedFiles, wallMs: number): Promise<TlsJudged> {
  const listen = {
    cert: path("listen.tls.cert"),
    key: path("listen.tls.key"),
    clientCa: path("listen.tls.clientCa"),
  };
  const [upstream, store] = [clientPaths("upstream.tls", path), clientPaths("counters.redis.tls", path)];
  const named = [listen, upstream, store].flatMap((paths) => Object.values(paths));
  if (named.every((file) => file === null)) return { certificate: [], upstream: [], store: [], warning: null };
  const { certificateWarning, clientTlsFiles, listenTlsFiles } = await import("../config/tls-files.ts");
  const certificate = await readFiles(listenTlsFiles(listen));
  return {
    certificate: certificate.ok ? [] : certificate.errors,
    upstream: await errorsOf(clientTlsFiles("upstream.tls", upstream)),
    store: await errorsOf(clientTlsFiles("counters.redis.tls", store)),
    warning: certificate.ok ? certificateWarning(certificate.value, wallMs) : null,
  };
}

function clientPaths(section: "upstream.tls" | "counters.redis.tls", path: NamedFiles["path"]) {
  return { ca: path(`${section}.ca`), cert: path(`${section}.cert`), key: path(`${section}.key`) };
}

async function errorsOf(group: FileGroup<unknown>): Promise<readonly FileError[]> {
  const read = await readFiles(group);
  return read.ok ? [] : read.errors;
}

function render(error: FileError, place: string, file: string): string {
  if (error.kind === "unreadable") return `${place}: ${file}: cannot be read: ${explainReadFailure(error.cause)}`;
  const { line, found, expected } = error;
  const at = line === undefined ? `${place}: ${file}` : `${file}:${line}`;
  return `${at}: found ${found}, expected ${expected}`;
}

/** Quotes nothing from the file. */
function passwordFile(key: string, path: string | null): FileGroup<string | null> {
  return {
    paths: { [key]: path },
    parse({ [key]: text }) {
      if (path === null) return { ok: true, value: null };
      if (text === undefined) return { ok: false, flaws: [] };
      const value = passwordIn(text);
      if (value !== null) return { ok: true, value };
      const found = text.trim() === "" ? "an empty file" : "several lines";
      return { ok: false, flaws: [{ key, found, expected: "one line with the password" }] };
    },
  };
}

/** Returns the name of a file in messages: relative to the working directory if it is inside. */
function nameFrom(cwd: string, file: string): string {
  const name = relative(cwd, file);
  return name === "" || name.startsWith("..") || isAbsolute(name) ? file : name;
}
