// Makes a connection usable: the password is accepted, the database chosen, and the server is a primary that has loaded
// its data.
import type { HostPort } from "../core/host-port.ts";
import type { StoreConnectionSettings } from "../core/shared-store.ts";
import { StoreError } from "./call-failure.ts";
import { Connection } from "./connection.ts";
import { type Credentials, type ReadFile, readCredentials } from "./credentials.ts";

export interface Opener {
  readonly settings: StoreConnectionSettings;
  readonly readFile: ReadFile;
  readonly connectTimeoutMs: number;
}

/** Connects to a server that holds keys. Rejects with a StoreError. */
export function openPrimary(
  opener: Opener,
  locate: () => HostPort | Promise<HostPort>,
  signal: AbortSignal,
): Promise<Connection> {
  return open(opener, locate, signal, async (connection, credentials) => {
    const { database } = opener.settings;
    const steps = [authenticate(connection, credentials)];
    if (database !== 0) steps.push(connection.ask("select", String(database)).then(() => undefined));
    steps.push(requirePrimary(connection), requireLoaded(connection));
    await first(steps);
  });
}

/** Connects to a server that is only asked where others are. Rejects with a StoreError. */
export function openAny(opener: Opener, address: HostPort, signal: AbortSignal): Promise<Connection> {
  return open(opener, () => address, signal, authenticate);
}

/** Connects to a sentinel, which has a password of its own or none. Rejects with a StoreError. */
export function openSentinel(opener: Opener, address: HostPort, signal: AbortSignal): Promise<Connection> {
  return open(
    opener,
    () => address,
    signal,
    async (connection, credentials) => {
      try {
        await connection.ask("ping");
      } catch (error) {
        if (!isRefused(error)) throw error;
        await authenticate(connection, credentials);
      }
    },
  );
}

/** All of it is done within the time for it: a server that is stopped still accepts connections. */
async function open(
  { settings, readFile, connectTimeoutMs }: Opener,
  locate: () => HostPort | Promise<HostPort>,
  cancelled: AbortSignal,
  shakeHands: (connection: Connection, credentials: Credentials) => Promise<void>,
): Promise<Connection> {
  const address = await locate();
  const attempt = new AbortController();
  const abort = (): void => attempt.abort();
  const timer = setTimeout(abort, connectTimeoutMs);
  cancelled.addEventListener("abort", abort);
  if (cancelled.aborted) abort();
  let connection: Connection | null = null;
  const { signal } = attempt;
  try {
    const credentials = await Promise.race([readCredentials(settings, readFile), tooLate(signal)]);
    const serverName = settings.tls?.serverName ?? address.host;
    connection = await Connection.open({ address, tls: credentials.tls, serverName, signal });
    const opened = connection;
    const drop = (): void => opened.drop({ kind: "unreachable", detail: "the server does not answer" });
    signal.addEventListener("abort", drop);
    if (signal.aborted) drop();
    await shakeHands(connection, credentials);
    if (connection.lost !== null) throw new StoreError(connection.lost);
    return connection;
  } catch (error) {
    connection?.drop({ kind: "unreachable", detail: "not usable" });
    throw error;
  } finally {
    clearTimeout(timer);
    cancelled.removeEventListener("abort", abort);
  }
}

function tooLate(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const detail = "no connection within the time for it";
    signal.addEventListener("abort", () => reject(new StoreError({ kind: "unreachable", detail })));
  });
}

/** Rejects with the failure of the first step that fails: a wrong password is why the later ones fail. */
async function first(steps: readonly Promise<void>[]): Promise<void> {
  for (const step of await Promise.allSettled(steps)) if (step.status === "rejected") throw step.reason;
}

async function authenticate(connection: Connection, { username, password }: Credentials): Promise<void> {
  if (password === null) return;
  try {
    await connection.ask("auth", ...(username === null ? [] : [username]), password);
  } catch (error) {
    throw error instanceof StoreError ? withoutPassword(error, password) : error;
  }
}

function withoutPassword({ failure }: StoreError, password: string): StoreError {
  const detail = password === "" ? failure.detail : failure.detail.replaceAll(password, "(password)");
  return new StoreError({ ...failure, detail });
}

/** Who may not ask for the role learns it from the first call. */
async function requirePrimary(connection: Connection): Promise<void> {
  const role = await unlessForbidden(connection.ask("role"));
  if (!Array.isArray(role) || role[0] === "master") return;
  throw new StoreError({ kind: "unready", detail: "the server is a replica" });
}

async function requireLoaded(connection: Connection): Promise<void> {
  await unlessForbidden(connection.ask("ping"));
}

async function unlessForbidden(asked: Promise<unknown>): Promise<unknown> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof StoreError && error.failure.detail.startsWith("NOPERM")) return null;
    throw error;
  }
}

function isRefused(error: unknown): boolean {
  return error instanceof StoreError && error.failure.kind === "refused";
}
