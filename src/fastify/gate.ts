// Begins an exchange for every request of the app, and answers what the app never sees: targets that its router cannot
// read and bytes that are no request.
import type { IncomingMessage, Server } from "node:http";
import { Http2ServerRequest } from "node:http2";
import type { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import { brokenRule } from "../core/broken-rule.ts";
import { type ClientAddressRules, type Peer, readPeer } from "../core/client-address.ts";
import { errorCode } from "../core/failure.ts";
import { closeMs, maxFields } from "../core/http-bounds.ts";
import { type LocalReply, localReplies, malformedBy } from "../core/local-reply.ts";
import { readHttp1Version } from "../core/message-check.ts";
import { knownMethods } from "../core/method.ts";
import { type RequestHead, readHttp2Head } from "../core/request-head.ts";
import { Exchange, type RuntimeRef } from "../exchange/exchange.ts";
import { ClientSocket } from "./client-socket.ts";
import { FastifyTransport, type TransportOwner } from "./fastify-transport.ts";

/** The gate of each app that has one, by its server: the constructor's options are made before there is an app. */
export const gates = new WeakMap<Server, Gate>();

export interface GateOptions {
  readonly runtime: RuntimeRef;
  /** For routes that the app has left out: they show the quota and are asked for nothing. */
  readonly leftOut: RuntimeRef;
  readonly clientAddress: ClientAddressRules;
  readonly lingerMs: number;
}

export class Gate implements TransportOwner {
  isClosing = false;
  readonly #options: GateOptions;
  readonly #open = new Set<Exchange>();
  readonly #clients = new WeakMap<Socket, ClientSocket>();
  /** Connections that have had their last response. */
  readonly lingering = new Set<Socket>();
  /** Requests whose client waits for a 100, which Node has not sent. */
  readonly #awaiting = new WeakSet<IncomingMessage>();

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** Calls `proceed` if the request may go on, at once or later; otherwise answers it. */
  begin(request: FastifyRequest, reply: FastifyReply, proceed: () => void): void {
    const { leftOut, runtime } = this.#options;
    const isLeftOut = request.routeOptions.config.headgate === false;
    this.#begin(request, reply, isLeftOut ? leftOut : runtime, proceed);
  }

  /** Answers a request that the app's router cannot handle, if nothing else speaks against it. */
  refuse(request: FastifyRequest, reply: FastifyReply, refusal: LocalReply): void {
    // Its body is not wanted.
    this.#awaiting.delete(request.raw);
    const answer = (): void => FastifyTransport.of(reply.raw)?.exchange?.localReply(refusal);
    this.#begin(request, reply, this.#options.runtime, answer);
  }

  /** Node leaves it to `begin` to tell the client of this request to continue. */
  awaitContinue(raw: IncomingMessage): void {
    this.#awaiting.add(raw);
  }

  /** Answers bytes that Node's parser refused, or breaks the connection. */
  refuseBytes(error: Error, socket: Socket): void {
    const reply = replyToParseError(error, socket.bytesRead);
    if (reply === null) socket.destroy();
    else this.#clientOf(socket).refuseBytes(reply);
  }

  refuseMethod(socket: Socket): void {
    this.#clientOf(socket).refuseBytes(localReplies.unsupportedMethod);
  }

  onClose(exchange: Exchange): void {
    this.#open.delete(exchange);
  }

  get lingerMs(): number {
    return this.isClosing ? closeMs : this.#options.lingerMs;
  }

  announceEnd(): void {
    this.isClosing = true;
    for (const socket of this.lingering) socket.end(() => void socket.destroy());
  }

  /** Ends what is under way: the app's connections are closed by now. */
  end(): void {
    for (const exchange of this.#open) exchange.abort();
    this.#options.runtime.waiting.abortAll();
  }

  #begin({ raw }: FastifyRequest, reply: FastifyReply, runtime: RuntimeRef, proceed: () => void): void {
    // A connection that was reset before it was accepted has no address, so nobody could be charged.
    if (!this.#clients.has(raw.socket) && raw.socket.remoteAddress === undefined) {
      reply.hijack();
      raw.socket.destroy();
      return;
    }
    const client = raw instanceof Http2ServerRequest ? null : this.#clientOf(raw.socket);
    if (client?.isClosing) {
      reply.hijack();
      return;
    }
    const transport = new FastifyTransport(reply, client, this.#awaiting.has(raw), proceed, this);
    const peer = client?.peer ?? this.#peerOf(raw.socket);
    const exchange = new Exchange(this.#headOf(raw, peer), transport, runtime);
    transport.exchange = exchange;
    client?.begin(exchange);
    this.#open.add(exchange);
    if (exchange.head.rawHeaders.length > 2 * maxFields) exchange.reject(localReplies.tooManyFields);
    else exchange.start();
  }

  #headOf(raw: IncomingMessage | Http2ServerRequest, peer: Peer): RequestHead {
    if (raw instanceof Http2ServerRequest) {
      const endsWithHead = raw.stream.endAfterHeaders;
      // The router uses `raw.url`, which the app's `rewriteUrl` may have changed; the raw headers have the old path.
      return { ...readHttp2Head(raw.rawHeaders, raw.url), peer, httpVersion: "2", endsWithHead };
    }
    const { method = "", url: target = "", rawHeaders, httpVersion } = raw;
    return { peer, rawHeaders, method, target, httpVersion: readHttp1Version(httpVersion) };
  }

  #clientOf(socket: Socket): ClientSocket {
    const known = this.#clients.get(socket);
    if (known !== undefined) return known;
    const client = new ClientSocket(socket, this.#peerOf(socket), this.#options.runtime, this);
    this.#clients.set(socket, client);
    return client;
  }

  #peerOf({ remoteAddress }: Socket): Peer {
    return readPeer(remoteAddress, this.#options.clientAddress);
  }
}

/** The `forward` of the app's runtimes: the app handles the request. */
export function handOver({ transport }: Exchange): void {
  if (transport instanceof FastifyTransport) transport.proceed();
}

/** Returns the reply to a parse error; null if the client has left. `receivedBytes`: of the socket. */
function replyToParseError(error: Error, receivedBytes: number): LocalReply | null {
  const code = errorCode(error) ?? "";
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return receivedBytes > 0 ? localReplies.slowRequest : null;
  if (code === "HPE_HEADER_OVERFLOW") {
    return isFirstLine(error, receivedBytes) ? localReplies.targetTooLong : localReplies.headTooLarge;
  }
  if (hasUnknownMethod(error, code, receivedBytes)) return localReplies.unsupportedMethod;
  // The client closed its side within a message, or reset the connection.
  if (code === "HPE_INVALID_EOF_STATE" || !code.startsWith("HPE_")) return null;
  return malformedBy(brokenRule(code));
}

/** Returns whether the error is about a request line with an unknown method. The parser knows a few more than Node. */
function hasUnknownMethod(error: Error, code: string, receivedBytes: number): boolean {
  // The preface of HTTP/2.
  if (code === "HPE_PAUSED_H2_UPGRADE") return true;
  if (!lineErrors.has(code) || !("rawPacket" in error && error.rawPacket instanceof Buffer)) return false;
  const text = error.rawPacket.toString("latin1");
  // The parser may have read the line's end.
  const lineStart = text.lastIndexOf("\n", Number(Reflect.get(error, "bytesParsed")) - 2) + 1;
  const method = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+)(?: |$)/.exec(text.slice(lineStart))?.[1];
  if (method === undefined || code === "HPE_INVALID_METHOD") return method !== undefined;
  // The line may have begun in an earlier packet, which the error does not have.
  const mayBeEnd = lineStart === 0 && error.rawPacket.length < receivedBytes;
  return ![...knownMethods].some((known) => (mayBeEnd ? known.endsWith(method) : known === method));
}

const lineErrors: ReadonlySet<string> = new Set(["HPE_INVALID_METHOD", "HPE_INVALID_VERSION", "HPE_INVALID_CONSTANT"]);

/** The error has the packet, which is the first one if nothing else was received. */
function isFirstLine(error: Error, receivedBytes: number): boolean {
  const packet = "rawPacket" in error ? error.rawPacket : undefined;
  const isFirst = packet instanceof Uint8Array && packet.byteLength === receivedBytes;
  return isFirst && !packet.subarray(0, Number(Reflect.get(error, "bytesParsed"))).includes(0x0a);
}
