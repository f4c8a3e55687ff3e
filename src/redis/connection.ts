// One connection to one server, from its first byte to its end: it never connects again, sends nothing twice, and keeps
// no command that it cannot send. The library (ioredis) writes the commands, reads the replies and matches the two.
import type { Socket } from "node:net";
import { AbstractConnector, Command, Redis } from "ioredis";
import { errorCode, ignoreError } from "../core/failure.ts";
import type { HostPort } from "../core/host-port.ts";
import type { CallFailure } from "../core/shared-store.ts";
import { errorReplyFailure, StoreError, unreachable } from "./call-failure.ts";
import { openSocket, type SocketOptions } from "./open-socket.ts";
import { ReplyGuard } from "./reply-guard.ts";

/** Called once, never within the call that it was given to. `errorReply` is the whole message of the server. */
export type OnReply = (reply: unknown, failure: CallFailure | null, errorReply?: string) => void;

const mostOutstanding = 1_024;
/** What the system has not taken yet. */
const mostUnsentBytes = 8 * 1024 * 1024;

const closed = unreachable("the server closed the connection");

export class Connection {
  readonly address: HostPort;
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
    if (this.#guard.admits(bytes)) this.#socket.emit("data", Buffer.from(bytes));
    else this.drop(unreachable("the server sends what was not asked for"));
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
