// The files that a connection needs: password, authority, own certificate. They are read again at each connection, so
// that what is rotated is used at the next one. The password never leaves this object but to the server.
import type { SecureContextOptions } from "node:tls";
import { errorCode } from "../core/failure.ts";
import { passwordIn } from "../core/password.ts";
import type { StoreConnectionSettings } from "../core/shared-store.ts";
import { StoreError } from "./call-failure.ts";

/** Rejects with the system's error. What it reads has a bounded size, and it never waits for a pipe. */
export type ReadFile = (path: string) => Promise<string>;

export interface Credentials {
  readonly username: string | null;
  readonly password: string | null;
  /** Null: plain. */
  readonly tls: SecureContextOptions | null;
}

/** Rejects with a StoreError. */
export async function readCredentials(settings: StoreConnectionSettings, readFile: ReadFile): Promise<Credentials> {
  const read = async (path: string | null, what: string): Promise<string | null> => {
    if (path === null) return null;
    try {
      return await readFile(path);
    } catch (error) {
      const code = errorCode(error) ?? "not readable";
      throw new StoreError({ kind: "refused", detail: `the ${what} cannot be read: ${code}` });
    }
  };
  const { tls } = settings;
  const [password, ca, cert, key] = await Promise.all([
    read(settings.passwordFile, "password file"),
    read(tls?.caFile ?? null, "file of authorities"),
    read(tls?.certFile ?? null, "certificate file"),
    read(tls?.keyFile ?? null, "key file"),
  ]);
  return {
    username: settings.username,
    password: password === null ? null : onlyLine(password),
    tls: tls && { ...(ca !== null && { ca }), ...(cert !== null && { cert }), ...(key !== null && { key }) },
  };
}

function onlyLine(text: string): string {
  const password = passwordIn(text);
  if (password !== null) return password;
  throw new StoreError({ kind: "refused", detail: "the password file has no password in one line" });
}
