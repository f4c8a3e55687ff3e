// One connection to one server, from its first byte to its end: it never connects again, sends nothing twice, and keeps
// no command that it cannot send. The library (ioredis) writes the commands, reads the replies and matches the two.
import { randomUUID } from "node:crypto";
import { connect, isIP, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import {
  checkServerIdentity,
  connect as connectTls,
  createSecureContext,
  type SecureContext,
  TLSSocket,
} from "node:tls";
import { isDeepStrictEqual } from "node:util";
import { AbstractConnector, Command, Redis } from "ioredis";
import { errorCode, ignoreError } from "../../../core/failure.ts";
import { passwordIn } from "../../../core/file-group.ts";
import type { HostPort } from "../../../core/ip-address.ts";
import type { CallFailure, StoreConnectionSettings } from "../../../core/store-link.ts";
import { errorReplyFailure, failureAt, failureOf, isLacking, ReplyGuard, StoreError, unreachable } from "./replies.ts";

/** Called once, never within the call that it was given to. `errorReply` is the whole message of the server. */
export type OnReply = (reply: unknown, failure: CallFailure | null, errorReply?: string) => void;

const mostOutstanding = 1_024;
/** What the system has not taken yet. */
const mostUnsentBytes = 8 * 1024 * 1024;

const closed = unreachable("the server closed the connection");
const noAnswer = unreachable("the server does not answer");

export class Connection {
  readonly address: HostPort;
  /** No other connection has it. */
  readonly id = randomUUID();
  /** Called once, when the connection is lost or dropped. */
  onLost: (failure: CallFailure) => void = ignoreError;
  readonly #socket: Socket;
  readonly #redis: Redis;
  readonly #guard = new ReplyGuard();
  #lost: CallFailure | null = null;

  /** Begins to connect. `serverName`: in the server's certificate. */
  constructor(address: HostPort, tls: SecureContext | null, serverName: string) {
    this.address = address;
    this.#socket = openSocket(address, tls, serverName, (bytes) => this.#receive(bytes));
    this.#redis = libraryOn(this.#socket);
    this.#redis.on("error", () => this.drop(unreachable("the server's replies cannot be read")));
    // Messages of the system repeat the address, those of TLS say in words what the code says. "close" follows.
    this.#socket.on("error", (error) => {
      this.#lost ??= unreachable(errorCode(error) ?? "the connection failed");
    });
    this.#socket.once("close", () => {
      this.#lost ??= closed;
      this.onLost(this.#lost);
    });
  }

  /** Resolves when commands can be sent; rejects with a StoreError. Must be called at once. */
  async opened(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const event = this.#socket instanceof TLSSocket ? "secureConnect" : "connect";
    this.#socket.once(event, resolve).once("close", resolve);
    await promise;
    if (this.#lost === null) await this.#redis.connect().catch(ignoreError);
    if (!this.#isReady) this.drop(closed);
    if (this.#lost !== null) throw new StoreError(this.#lost);
  }

  /** Commands of one turn of the event loop leave in one write. */
  send(name: string, args: string[], onReply: OnReply): void {
    const failure = this.#refusal();
    if (failure !== null) {
      queueMicrotask(() => onReply(null, failure));
      return;
    }
    if (this.#socket.writableCorked === 0) {
      this.#socket.cork();
      process.nextTick(() => this.#socket.uncork());
    }
    this.#guard.expected += 1;
    const command = new Command(name, args, { replyEncoding: "utf8" }, (error, reply) => {
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
    const late = sleep(ms, undefined, { ref: false }).then(() => Promise.reject(new StoreError(noAnswer)));
    return Promise.race([this.ask(name, ...args), late]);
  }

  /** Ends the connection without waiting for the server. Calls that have no answer fail with this. */
  drop(failure: CallFailure): void {
    this.#lost ??= failure;
    this.#socket.destroy();
  }

  get lost(): CallFailure | null {
    return this.#lost;
  }

  get #isReady(): boolean {
    return this.#redis.status === "ready";
  }

  #refusal(): CallFailure | null {
    if (this.#lost !== null) return this.#lost;
    if (this.#guard.expected >= mostOutstanding) return unreachable(`${mostOutstanding} calls have no answer`);
    return this.#socket.writableLength > mostUnsentBytes ? unreachable("the server does not read") : null;
  }

  #receive(bytes: Uint8Array): void {
    if (this.#lost !== null) return;
    if (!this.#isReady) {
      this.drop(refusalOf(bytes));
      return;
    }
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

const receiveBytes = 16 * 1024;

/**
 * Opens a TCP or TLS socket, which verifies the server's certificate. What arrives is given to `onBytes`, without an event
 * that the library could see first; the bytes are used for others afterwards.
 */
function openSocket(
  { host, port }: HostPort,
  tls: SecureContext | null,
  serverName: string,
  onBytes: (bytes: Uint8Array) => void,
): Socket {
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

/** `tls`: null if plain. Rejects with a StoreError. */
async function readCredentials({ settings, readFile, contextOf }: Opener) {
  const told = async <T>(what: string, step: () => T | Promise<T>): Promise<T> => {
    try {
      return await step();
    } catch (error) {
      throw new StoreError({ kind: "refused", detail: `the ${what}: ${errorCode(error) ?? "not readable"}` });
    }
  };
  const read = async (path: string | null | undefined, what: string): Promise<string | undefined> =>
    path ? told(`${what} cannot be read`, () => readFile(path)) : undefined;
  const { passwordFile, tls } = settings;
  const [text, ca, cert, key] = await Promise.all([
    read(passwordFile, "password file"),
    read(tls?.caFile, "file of authorities"),
    read(tls?.certFile, "certificate file"),
    read(tls?.keyFile, "key file"),
  ]);
  const password = text === undefined ? null : passwordIn(text);
  if (text !== undefined && password === null) {
    throw new StoreError({ kind: "refused", detail: "the password file has no password in one line" });
  }
  return { password, tls: tls && (await told("files for TLS cannot be used", () => contextOf({ ca, cert, key }))) };
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

// Makes a connection usable: the password is accepted, the database chosen, and the server is a primary that has loaded
// its data.

/** What all connections of a link have in common. */
export interface Opener {
  readonly settings: StoreConnectionSettings;
  readonly script: string;
  /** Rejects with the system's error. What it reads has a bounded size, and it never waits for a pipe. */
  readonly readFile: (path: string) => Promise<string>;
  /** For all that is done until a connection can be used. */
  readonly connectTimeoutMs: number;
  readonly contextOf: typeof createSecureContext;
}

const handshakes = {
  /** A server that holds keys. */
  async primary(connection: Connection, opener: Opener, password: string | null): Promise<void> {
    const { database } = opener.settings;
    const steps: Promise<unknown>[] = [authenticate(connection, opener, password)];
    if (database !== 0) steps.push(connection.ask("select", String(database)));
    // A server that is loading its data says so.
    steps.push(requirePrimary(connection), unlessLacking(connection.ask("ping")));
    // A wrong password is why the later ones fail.
    for (const step of await Promise.allSettled(steps)) if (step.status === "rejected") throw step.reason;
  },

  /** A sentinel, which has a password of its own or none. */
  async sentinel(connection: Connection, opener: Opener, password: string | null): Promise<void> {
    try {
      await connection.ask("ping");
    } catch (error) {
      if (failureOf(error).kind !== "refused") throw error;
      await authenticate(connection, opener, password);
    }
  },

  /** A node of a cluster that is only asked where others are. */
  node: authenticate,
};

/**
 * Connects and makes the connection usable, within the time for it: a server that is stopped still accepts connections.
 * Rejects with a StoreError.
 */
export async function openConnection(
  role: keyof typeof handshakes,
  opener: Opener,
  address: HostPort,
  cancelled: AbortSignal,
): Promise<Connection> {
  const signal = AbortSignal.any([cancelled, AbortSignal.timeout(opener.connectTimeoutMs)]);
  let connection: Connection | null = null;
  let missing = unreachable("no connection within the time for it");
  const { promise: late, reject } = Promise.withResolvers<never>();
  const onLate = (): void => {
    connection?.drop(missing);
    reject(new StoreError(missing));
  };
  signal.addEventListener("abort", onLate);
  if (signal.aborted) onLate();
  try {
    const { password, tls } = await Promise.race([readCredentials(opener), late]);
    // RFC 6066, 3: without a final dot.
    const serverName = (opener.settings.tls?.serverName ?? address.host).replace(/\.$/, "");
    connection = new Connection(address, tls, serverName);
    await connection.opened();
    missing = noAnswer;
    await handshakes[role](connection, opener, password);
    if (connection.lost !== null) throw new StoreError(connection.lost);
    return connection;
  } catch (error) {
    connection?.drop(unreachable("not usable"));
    throw error instanceof StoreError ? new StoreError(failureAt(address, error.failure)) : error;
  } finally {
    signal.removeEventListener("abort", onLate);
  }
}

async function authenticate(connection: Connection, { settings }: Opener, password: string | null): Promise<void> {
  if (password === null) return;
  const { username } = settings;
  try {
    await connection.ask("auth", ...(username === null ? [] : [username]), password);
  } catch (error) {
    const { kind, detail } = failureOf(error);
    throw new StoreError({ kind, detail: detail.replaceAll(password, "(password)") });
  }
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
