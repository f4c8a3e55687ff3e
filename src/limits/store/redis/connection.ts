// One connection to one server, from its first byte to its end: it never connects again, sends nothing twice, and keeps
// no command that it cannot send. The library (ioredis) writes the commands, reads the replies and matches the two.
import { randomUUID } from "node:crypto";
import { connect, isIP, type Socket } from "node:net";
import { checkServerIdentity, connect as connectTls, createSecureContext, type SecureContext } from "node:tls";
import { isDeepStrictEqual } from "node:util";
import { AbstractConnector, Command, Redis } from "ioredis";
import { errorCode, ignoreError } from "../../../core/failure.ts";
import { passwordIn } from "../../../core/file-group.ts";
import type { HostPort } from "../../../core/ip-address.ts";
import type { CallFailure, StoreConnectionSettings } from "../../../core/store-link.ts";
import { errorReplyFailure, failureAt, isLacking, ReplyGuard, StoreError, unreachable } from "./replies.ts";

/** Called once, never within the call that it was given to. `errorReply` is the whole message of the server. */
export type OnReply = (reply: unknown, failure: CallFailure | null, errorReply?: string) => void;

const mostOutstanding = 1_024;
/** What the system has not taken yet. */
const mostUnsentBytes = 8 * 1024 * 1024;

const closed = unreachable("the server closed the connection");

export class Connection {
  readonly address: HostPort;
  /** No other connection has it. */
  readonly id = randomUUID();
  /** Called once, when the connection is lost or dropped. */
  onLost: (failure: CallFailure) => void = ignoreError;
  readonly #socket: Socket;
  readonly #redis: Redis;
  readonly #guard: ReplyGuard;
  #outstanding = 0;
  #isCorked = false;
  #lost: CallFailure | null = null;

  /** Resolves when commands can be sent; rejects with a StoreError. */
  static async open(options: Omit<SocketOptions, "onBytes">): Promise<Connection> {
    const guard = new ReplyGuard();
    let connection: Connection | null = null;
    let early: CallFailure | null = null;
    const onBytes = (bytes: Uint8Array): void => {
      if (connection === null || early !== null) early ??= refusalOf(bytes);
      else connection.#receive(bytes);
    };
    const socket = await openSocket({ ...options, onBytes });
    const redis = libraryOn(socket);
    connection = new Connection(options.address, socket, redis, guard);
    await redis.connect().catch(ignoreError);
    if (early !== null || redis.status !== "ready") {
      connection.drop(early ?? closed);
      throw new StoreError(early ?? connection.#lost ?? closed);
    }
    return connection;
  }

  private constructor(address: HostPort, socket: Socket, redis: Redis, guard: ReplyGuard) {
    this.address = address;
    this.#socket = socket;
    this.#redis = redis;
    this.#guard = guard;
    redis.on("error", () => this.drop(unreachable("the server's replies cannot be read")));
    socket.once("error", (error) => {
      this.#lost ??= unreachable(errorCode(error) ?? closed.detail);
    });
    socket.once("close", () => {
      this.#lost ??= closed;
      this.onLost(this.#lost);
    });
  }

  /** Commands of one turn of the event loop leave in one write. */
  send(name: string, args: string[], onReply: OnReply): void {
    const failure = this.#refusal();
    if (failure !== null) {
      queueMicrotask(() => onReply(null, failure));
      return;
    }
    this.#cork();
    this.#outstanding += 1;
    this.#guard.expected += 1;
    const command = new Command(name, args, { replyEncoding: "utf8" }, (error, reply) => {
      this.#outstanding -= 1;
      if (!error) onReply(reply ?? null, null);
      else if (error.name !== "ReplyError") onReply(null, this.#lost ?? closed);
      else onReply(null, errorReplyFailure(error.message), error.message);
    });
    this.#redis.sendCommand(command);
  }

  /** Resolves with the reply; rejects with a StoreError. */
  ask(name: string, ...args: string[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.send(name, args, (reply, failure) => (failure ? reject(new StoreError(failure)) : resolve(reply)));
    });
  }

  /** The same of a server that may never answer: waits so long, and keeps the connection for answers to others. */
  askWithin(ms: number, name: string, ...args: string[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const late = (): void => reject(new StoreError(unreachable("the server does not answer")));
      const timer = setTimeout(late, ms);
      this.ask(name, ...args)
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
  }

  /** Ends the connection without waiting for the server. Calls that have no answer fail with this. */
  drop(failure: CallFailure): void {
    this.#lost ??= failure;
    this.#socket.destroy();
  }

  get lost(): CallFailure | null {
    return this.#lost;
  }

  #refusal(): CallFailure | null {
    if (this.#lost !== null) return this.#lost;
    if (this.#outstanding >= mostOutstanding) return unreachable(`${mostOutstanding} calls have no answer`);
    return this.#socket.writableLength > mostUnsentBytes ? unreachable("the server does not read") : null;
  }

  #cork(): void {
    if (this.#isCorked) return;
    this.#isCorked = true;
    this.#socket.cork();
    process.nextTick(() => {
      this.#isCorked = false;
      this.#socket.uncork();
    });
  }

  #receive(bytes: Uint8Array): void {
    if (this.#lost !== null) return;
    const fault = this.#guard.fault(bytes);
    if (fault === null) this.#socket.emit("data", Buffer.from(bytes));
    else this.drop(unreachable(`the server sends what was not asked for, or is no reply, in the ${fault} of one`));
  }
}

/** A server says why it does not want a client, such as one too many, and closes. Nothing else comes unasked. */
function refusalOf(bytes: Uint8Array): CallFailure {
  const [, message] = /^-([^\r\n]+)\r\n/.exec(Buffer.from(bytes.subarray(0, 1_024)).toString("latin1")) ?? [];
  return message === undefined ? unreachable("the server speaks before it is asked") : errorReplyFailure(message);
}

/** Everything that the library would do by itself is off: connecting, authenticating, queuing, sending again. */
function libraryOn(socket: Socket): Redis {
  class Opened extends AbstractConnector {
    constructor() {
      super(0);
    }

    connect(): Promise<Socket> {
      return Promise.resolve(socket);
    }

    override disconnect(): void {
      socket.destroy();
    }
  }
  return new Redis({
    Connector: Opened,
    lazyConnect: true,
    protocol: 2,
    disableClientInfo: true,
    enableReadyCheck: false,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: null,
    retryStrategy: () => null,
  });
}

// Opens a TCP or TLS socket to a server of the store. What arrives is given to `onBytes`, without an event that the
// library could see first. The server's certificate is always verified.

const receiveBytes = 16 * 1024;

interface SocketOptions {
  readonly address: HostPort;
  /** Null: plain. */
  readonly tls: SecureContext | null;
  /** The name in the server's certificate. */
  readonly serverName: string;
  /** Aborts the attempt; the socket that has been opened does not know it any more. */
  readonly signal: AbortSignal;
  /** The bytes are used for others afterwards. */
  readonly onBytes: (bytes: Uint8Array) => void;
}

/** Rejects with a StoreError. */
function openSocket(options: SocketOptions): Promise<Socket> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    const socket = begin(options);
    // Errors that come later are followed by "close".
    socket.on("error", ignoreError);
    const fail = (detail: string): void => {
      signal.removeEventListener("abort", onAbort);
      socket.destroy();
      reject(new StoreError(unreachable(detail)));
    };
    const onAbort = (): void => fail("no connection within the time for it");
    // Messages of the system repeat the address, those of TLS say in words what the code says.
    const onError = (error: Error): void => fail(errorCode(error) ?? "the connection failed");
    const onClose = (): void => fail("the server closed the connection");
    signal.addEventListener("abort", onAbort);
    socket.once("error", onError).once("close", onClose);
    socket.once(options.tls === null ? "connect" : "secureConnect", () => {
      socket.off("error", onError).off("close", onClose);
      signal.removeEventListener("abort", onAbort);
      resolve(socket);
    });
    if (signal.aborted) onAbort();
  });
}

function begin({ address: { host, port }, tls, serverName, onBytes }: SocketOptions): Socket {
  const onread = {
    buffer: new Uint8Array(receiveBytes),
    callback: (length: number, buffer: Uint8Array): boolean => {
      onBytes(buffer.subarray(0, length));
      return true;
    },
  };
  // RFC 8305, 5. Node's 500 ms each would leave no time for a third address of the name.
  const address = { host, port, autoSelectFamilyAttemptTimeout: 250 };
  const shared = { ...address, onread, noDelay: true, keepAlive: true, keepAliveInitialDelay: 10_000 };
  if (tls === null) return connect(shared);
  return connectTls({
    ...shared,
    secureContext: tls,
    // An address is no server name in TLS.
    ...(isIP(serverName) === 0 && { servername: serverName }),
    rejectUnauthorized: true,
    checkServerIdentity: (_, certificate) => checkServerIdentity(serverName, certificate),
  });
}

// The files that a connection needs: password, authority, own certificate. They are read again at each connection, so
// that what is rotated is used at the next one. The password never leaves this object but to the server.

/** Rejects with the system's error. What it reads has a bounded size, and it never waits for a pipe. */
export type ReadFile = (path: string) => Promise<string>;

interface Credentials {
  readonly username: string | null;
  readonly password: string | null;
  /** Null: plain. */
  readonly tls: SecureContext | null;
}

/** Rejects with a StoreError. */
async function readCredentials({ settings, readFile, contextOf }: Opener): Promise<Credentials> {
  const told = async <T>(what: string, step: () => T | Promise<T>): Promise<T> => {
    try {
      return await step();
    } catch (error) {
      throw new StoreError({ kind: "refused", detail: `the ${what}: ${errorCode(error) ?? "not readable"}` });
    }
  };
  const read = async (path: string | null, what: string): Promise<string | null> =>
    path === null ? null : told(`${what} cannot be read`, () => readFile(path));
  const { tls } = settings;
  const [password, ca, cert, key] = await Promise.all([
    read(settings.passwordFile, "password file"),
    read(tls?.caFile ?? null, "file of authorities"),
    read(tls?.certFile ?? null, "certificate file"),
    read(tls?.keyFile ?? null, "key file"),
  ]);
  const files = { ...(ca !== null && { ca }), ...(cert !== null && { cert }), ...(key !== null && { key }) };
  return {
    username: settings.username,
    password: password === null ? null : onlyLine(password),
    tls: tls && (await told("files for TLS cannot be used", () => contextOf(files))),
  };
}

/** All connections share a context while the files are the same: one with the authorities of a system takes 27 ms and 1 MB. */
export function lastContext(): typeof createSecureContext {
  let [made, context]: [unknown, SecureContext | null] = [null, null];
  return (files) => {
    if (context !== null && isDeepStrictEqual(made, files)) return context;
    context = createSecureContext({ ...files, minVersion: "TLSv1.2" });
    made = files;
    return context;
  };
}

function onlyLine(text: string): string {
  const password = passwordIn(text);
  if (password !== null) return password;
  throw new StoreError({ kind: "refused", detail: "the password file has no password in one line" });
}

// Makes a connection usable: the password is accepted, the database chosen, and the server is a primary that has loaded
// its data.

export interface Opener {
  readonly settings: StoreConnectionSettings;
  readonly readFile: ReadFile;
  readonly connectTimeoutMs: number;
  readonly contextOf: typeof createSecureContext;
}

/** Connects to a server that holds keys. Rejects with a StoreError. */
export function openPrimary(
  opener: Opener,
  locate: () => HostPort | Promise<HostPort>,
  signal: AbortSignal,
): Promise<Connection> {
  return open(opener, locate, signal, async (connection, credentials) => {
    const { database } = opener.settings;
    const steps: Promise<unknown>[] = [authenticate(connection, credentials)];
    if (database !== 0) steps.push(connection.ask("select", String(database)));
    // A server that is loading its data says so.
    steps.push(requirePrimary(connection), unlessLacking(connection.ask("ping")));
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
  opener: Opener,
  locate: () => HostPort | Promise<HostPort>,
  cancelled: AbortSignal,
  shakeHands: (connection: Connection, credentials: Credentials) => Promise<void>,
): Promise<Connection> {
  const { settings, connectTimeoutMs } = opener;
  const address = await locate();
  const attempt = new AbortController();
  const abort = (): void => attempt.abort();
  const timer = setTimeout(abort, connectTimeoutMs);
  cancelled.addEventListener("abort", abort);
  if (cancelled.aborted) abort();
  let connection: Connection | null = null;
  const { signal } = attempt;
  try {
    const credentials = await Promise.race([readCredentials(opener), tooLate(signal)]);
    // RFC 6066, 3: without a final dot.
    const serverName = (settings.tls?.serverName ?? address.host).replace(/\.$/, "");
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
    throw error instanceof StoreError ? new StoreError(failureAt(address, error.failure)) : error;
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
async function first(steps: readonly Promise<unknown>[]): Promise<void> {
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

/**
 * Rejects if the server is a replica. A managed server may have no ROLE, and INFO says the role too. If neither may be asked, the
 * server is taken for a primary: a replica then refuses the first call, unless it takes writes.
 */
async function requirePrimary(connection: Connection): Promise<void> {
  const reply = await unlessLacking(connection.ask("role"));
  const said = Array.isArray(reply) ? `role:${reply[0]}` : await unlessLacking(connection.ask("info", "replication"));
  const [, role = "master"] = /^role:(\w+)/m.exec(String(said)) ?? [];
  if (role === "master") return;
  throw new StoreError({ kind: "unready", detail: `the server is a ${role === "sentinel" ? role : "replica"}` });
}

/** Resolves with null if the user may not run the command, or the server does not have it. */
async function unlessLacking(asked: Promise<unknown>): Promise<unknown> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof StoreError && isLacking(error.failure)) return null;
    throw error;
  }
}

function isRefused(error: unknown): boolean {
  return error instanceof StoreError && error.failure.kind === "refused";
}
