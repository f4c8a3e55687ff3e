// Whether the files that the configuration names can be used, before anything is opened: one line for each error, in the
// style of the configuration's own.
import type { TokenList } from "../auth/token-list.ts";
import { tokensFile } from "../auth/tokens-file.ts";
import type { NamedFiles } from "../config/load.ts";
import { passwordFile } from "../config/password-file.ts";
import { readFiles } from "../config/read-files.ts";
import { explainReadFailure } from "../config/regular-file.ts";
import { certificateWarning, clientTlsFiles, listenTlsFiles } from "../config/tls-files.ts";
import type { FileError, FileGroup } from "../core/file-group.ts";
import { nameFrom } from "./name-from.ts";

export interface FilesJudged {
  readonly errors: readonly string[];
  /** Of files that can be used. */
  readonly warnings: readonly string[];
  /** Null if there is no list, or none that can be used. */
  readonly tokens: TokenList | null;
}

export async function judgeFiles(files: NamedFiles, cwd: string, wallMs: number): Promise<FilesJudged> {
  const { path, place } = files;
  const errorsOf = async (group: FileGroup<unknown>): Promise<readonly FileError[]> => {
    const read = await readFiles(group);
    return read.ok ? [] : read.errors;
  };
  const certificate = await readFiles(
    listenTlsFiles({
      cert: path("listen.tls.cert"),
      key: path("listen.tls.key"),
      clientCa: path("listen.tls.clientCa"),
    }),
  );
  const clientTls = (section: "upstream.tls" | "counters.redis.tls") =>
    clientTlsFiles(section, {
      ca: path(`${section}.ca`),
      cert: path(`${section}.cert`),
      key: path(`${section}.key`),
    });
  const tokensPath = path("auth.tokensFile");
  const tokens = await readFiles(tokensFile("auth.tokensFile", tokensPath));
  const errors = [
    ...(tokens.ok ? [] : tokens.errors),
    ...(await errorsOf(tokensFile("extAuth.secretsFile", path("extAuth.secretsFile")))),
    ...(certificate.ok ? [] : certificate.errors),
    ...(await errorsOf(clientTls("upstream.tls"))),
    ...(await errorsOf(passwordFile("counters.redis.passwordFile", path("counters.redis.passwordFile")))),
    ...(await errorsOf(clientTls("counters.redis.tls"))),
  ];
  const warning = certificate.ok ? certificateWarning(certificate.value, wallMs) : null;
  const at = `${place("listen.tls.cert")}: ${nameFrom(cwd, path("listen.tls.cert") ?? "")}`;
  return {
    errors: errors.map((error) => render(error, place(error.key), nameFrom(cwd, error.file))),
    warnings: warning === null ? [] : [`${at}: warning: the certificate ${warning}`],
    tokens: tokens.ok && tokensPath !== null ? tokens.value : null,
  };
}

function render(error: FileError, place: string, file: string): string {
  if (error.kind === "unreadable") return `${place}: ${file}: cannot be read: ${explainReadFailure(error.cause)}`;
  const { line, found, expected } = error;
  const at = line === undefined ? `${place}: ${file}` : `${file}:${line}`;
  return `${at}: found ${found}, expected ${expected}`;
}
