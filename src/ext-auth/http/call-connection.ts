// One connection of a caller, read by the same codec as those of clients: calls one after the other, in any number of
// packets. Each is answered when its head is here; its body is discarded. What cannot be read is refused, and the connection
// ends.
import type { Socket } from "node:net";
import type { CheckRefusal } from "../../core/connection-ends.ts";
import { ignoreError } from "../../core/failure.ts";
import {
  type HeaderList,
  headerValues,
  isNamed,
  onlyHeaderValue,
  serializeHead,
  trimBlanks,
} from "../../core/headers.ts";
import { maxUnreadBytes } from "../../core/http-bounds.ts";
import { JoinedPieces } from "../../core/joined-pieces.ts";
import { type LocalReply, probeReplies, ruleOf } from "../../core/local-reply.ts";
import { isValidHost } from "../../core/message-check.ts";
import type { RequestHead } from "../../core/request-head.ts";
import type { Replaceable } from "../../core/settings.ts";
import { type BodyDecoder, ChunkDecoder, LengthDecoder, requestChunks } from "../../http1/body-decoder.ts";
import { emptyLineBytes, HeadScan, type Http1Head, readHead } from "../../http1/request-head.ts";
import type { CallerConnections, CheckListenerOptions } from "../caller-connections.ts";
import {
  type Check,
  type CheckAnswer,
  type CheckCaller,
  type CheckProblem,
  CheckTransport,
  checkProblems,
} from "../check.ts";
import type { CheckSettings } from "../trusted-callers.ts";

/**
 * All calls in one read of a socket are answered in one turn of the event loop. Each takes about 10 µs, and a read may
 * contain thousands. No ingress pipelines calls.
 */
const maxCallsInRead = 100;

export interface ExtAuthHttpOptions extends CheckListenerOptions {
  /** What /readyz says. */
  readonly readiness: Replaceable<LocalReply>;
}

export interface CallOwner {
  readonly options: ExtAuthHttpOptions;
  readonly settings: CheckSettings;
  readonly connections: CallerConnections;
  /** Every answer closes its connection. */
  readonly isEnding: boolean;
  /** Header lines of an answer that keeps the connection open. */
  readonly keepAliveLines: string;
  closed(connection: CallConnection): void;
}

/** What a connection waits for, which bounds how long it may take. */
export type CallWait = "first-call" | "next-call" | "head" | "decision" | "flush" | "body" | "end";

export class CallConnection implements CheckCaller {
  readonly takesUnavailable = false;
  readonly socket: Socket;
  waitsFor: CallWait = "first-call";
  /** Sweeps since it began to wait. */
  sweeps = 0;
  readonly #address: string | undefined;
  readonly #owner: CallOwner;
  readonly #transport: CheckTransport;
  readonly #memory = new CallMemory();
  #hasAsked = false;
  #isHead = false;
  #isLastCall = false;
  /** `#read` is running, and goes on by itself. */
  #isReading = false;
  /** The beginning of a head, or what has come before an answer has left. */
  readonly #unread = new JoinedPieces();
  /** Of a head in several pieces. */
  #scan: HeadScan | null = null;
  /** What is still to come of the current call. */
  #body: BodyDecoder | null = null;

  constructor(socket: Socket, owner: CallOwner) {
    this.socket = socket;
    this.#address = socket.remoteAddress;
    this.#owner = owner;
    this.#transport = new CheckTransport(this);
    socket
      .on("end", this.#onEnd)
      .on("error", ignoreError)
      .on("close", () => owner.closed(this));
    if (owner.options.reads?.take(socket, this.#onBytes) !== true) socket.on("data", this.#onBytes);
  }

  get isGone(): boolean {
    return this.socket.destroyed;
  }

  answer({ status, reason, lines, body }: CheckAnswer): void {
    const isLast = this.#isLastCall || this.#owner.isEnding;
    const connection = isLast ? "Connection: close\r\n" : this.#owner.keepAliveLines;
    const text = serializeHead(status, reason, lines + connection) + (this.#isHead ? "" : body);
    if (isLast) {
      this.#end(text);
      return;
    }
    // Usually the kernel has taken it. Otherwise an empty write reports when it has.
    if (this.#owner.options.textWrites.write(this.socket, text)) this.#flushed();
    else {
      this.#wait("flush");
      this.socket.write("", "latin1", this.#onFlushed);
    }
  }

  abort(): void {
    this.socket.destroy();
  }

  /** What it waits for has taken too long. */
  expire(): void {
    if (this.waitsFor === "head") this.#refuseUnread(checkProblems.slow);
    // The call has its answer. A second one would be taken for that of the next call.
    else if (this.waitsFor === "body") this.#end("");
    else this.socket.destroy();
  }

  /** Sends a text, which may be empty. What still comes is discarded: unread bytes would reset the connection. */
  #end(text: string): void {
    this.#wait("end");
    this.#unread.take();
    this.socket.end(text, "latin1");
    this.socket.resume();
  }

  #wait(waitsFor: CallWait): void {
    this.waitsFor = waitsFor;
    this.sweeps = 0;
  }

  #flushed(): void {
    this.#wait(this.#body === null ? "next-call" : "body");
    if (!this.#isReading && this.#unread.length > 0) this.#readOn();
  }

  #readOn(): void {
    this.#read(this.#unread.take());
    if (this.socket.isPaused() && this.#unread.length < maxUnreadBytes) this.socket.resume();
  }

  /** Reads calls one after the other until one is not answered at once, or the rest of one has not come. */
  #read(bytes: Buffer): void {
    let rest = bytes;
    let calls = 0;
    this.#isReading = true;
    while (rest.length > 0 && this.#isReadable()) {
      if (this.#body === null) {
        calls += 1;
        rest = this.#readCall(rest, calls === maxCallsInRead);
      } else {
        rest = this.#discard(rest, this.#body);
      }
    }
    this.#isReading = false;
    if (rest.length > 0 && this.waitsFor !== "end") this.#unread.add(rest);
  }

  #isReadable(): boolean {
    return this.waitsFor === "first-call" || this.waitsFor === "next-call" || this.waitsFor === "body";
  }

  /** Begins the call at the beginning of the bytes. Returns those that are left of them. */
  #readCall(bytes: Buffer, isLastInRead: boolean): Buffer {
    // Empty lines do not start the timeout of a head.
    const emptyBytes = emptyLineBytes(bytes);
    if (emptyBytes > 0) return bytes.subarray(emptyBytes);
    const known = this.#memory.find(bytes);
    if (known !== null) {
      this.#begin(known, isLastInRead);
      return nothing;
    }
    const head = readHead(bytes, this.#owner.settings.headBounds);
    if (head === "incomplete") {
      // The first call has to come in time after the connection has been opened.
      if (this.waitsFor === "first-call") this.waitsFor = "head";
      else this.#wait("head");
      return bytes;
    }
    if ("status" in head) this.#refuseUnread(head);
    else if (head.httpVersion !== "1.1" && head.httpVersion !== "1.0") this.#refuseUnread(checkProblems.malformed);
    else return this.#take(head, bytes, isLastInRead);
    return nothing;
  }

  #take({ method, target, rawHeaders, ...head }: Http1Head, bytes: Buffer, isLastInRead: boolean): Buffer {
    const { headBytes, bodyBytes } = head;
    const end = bodyBytes === null ? Number.POSITIVE_INFINITY : headBytes + bodyBytes;
    const isWhole = end <= bytes.length;
    if (!isWhole) {
      this.#body = bodyBytes === null ? new ChunkDecoder(requestChunks, null) : new LengthDecoder(bodyBytes);
    }
    // A caller that waits for a 100 gets none, and may send its body or not.
    const mayDesert = !isWhole && (head.expectation !== null || bodyBytes === Number.POSITIVE_INFINITY);
    const call: ReadCall = { method, target, rawHeaders, isLast: head.isLast || mayDesert, head: null, isKept: false };
    // A connection that brings a single call needs no memory.
    if (this.#hasAsked && end === bytes.length) call.isKept = this.#memory.keep(bytes, call);
    this.#hasAsked = true;
    this.#begin(call, isLastInRead);
    return bytes.subarray(isWhole ? end : headBytes);
  }

  #discard(bytes: Buffer, body: BodyDecoder): Buffer {
    const { taken, problem } = body.decode(bytes);
    if (problem !== null) this.#end("");
    else if (body.isComplete) {
      this.#body = null;
      this.#wait("next-call");
    }
    return bytes.subarray(taken);
  }

  /** Has a call answered: now or later. Nothing of it is read if it comes from an untrusted caller. */
  #begin(call: ReadCall, isLastInRead: boolean): void {
    const { settings, connections, options } = this.#owner;
    this.#wait("decision");
    this.#isHead = call.method === "HEAD";
    this.#isLastCall = call.isLast || isLastInRead;
    if (this.#answerProbe(call)) return;
    if (!settings.callers.admits(this.#address, call.rawHeaders)) {
      this.#isLastCall = true;
      this.#refuse("untrusted", checkProblems.untrusted);
      return;
    }
    connections.promote(this.socket);
    const head = call.head?.peer.rules === settings.clientAddress ? call.head : this.#readHead(call);
    if ("peer" in head) options.checks.ask(head, this.#transport);
    else this.#refuse("malformed", head);
  }

  /** Answers a probe, which is no check: it is not counted and needs no trusted caller. Returns false for any other call. */
  #answerProbe({ method, target, rawHeaders }: ReadCall): boolean {
    if ((target !== "/livez" && target !== "/readyz") || (method !== "GET" && method !== "HEAD")) return false;
    const { readiness, settings, checks } = this.#owner.options;
    if (!settings.current.callers.include(this.#address, rawHeaders)) this.#isLastCall = true;
    const { status, message: reason, lines, body } = target === "/livez" ? probeReplies.alive : readiness.current;
    this.answer({ status, reason, lines: lines + checks.date, body });
    return true;
  }

  /** Returns the head of the request that the call is about. */
  #readHead(call: ReadCall): RequestHead | CheckProblem {
    const check = readHttpCheck(call);
    if (!("peerAddress" in check)) return check;
    const head = this.#owner.options.checks.read(check, call.isKept);
    if (call.isKept) call.head = head;
    return head ?? checkProblems.noClient;
  }

  /** Refuses what is no call that could be read. */
  #refuseUnread(problem: CheckProblem): void {
    this.#isHead = false;
    this.#isLastCall = true;
    this.#refuse("malformed", problem);
  }

  #refuse(reason: CheckRefusal, problem: CheckProblem): void {
    const { checks, onRefused } = this.#owner.options;
    onRefused(reason, this.#address ?? "", ruleOf(problem.detail) ?? problem.errMsg);
    this.answer(checks.refuse(problem));
  }

  readonly #onBytes = (bytes: Buffer): void => {
    if (this.#isReadable()) this.#read(bytes);
    else if (this.waitsFor !== "end") this.#keep(bytes);
  };

  #keep(bytes: Buffer): void {
    this.#unread.add(bytes);
    if (this.waitsFor !== "head") {
      if (this.#unread.length >= maxUnreadBytes) this.socket.pause();
      return;
    }
    this.#scan ??= new HeadScan(this.#owner.settings.headBounds);
    if (this.#scan.next(this.#unread.peek()) === "incomplete") return;
    this.#scan = null;
    this.#wait("next-call");
    this.#readOn();
  }

  /** A caller that closes its sending side before its answer has left. */
  readonly #onEnd = (): void => {
    if (this.waitsFor === "decision" || this.waitsFor === "flush") this.socket.destroy();
    else if (this.waitsFor !== "end") this.#end("");
  };

  readonly #onFlushed = (error?: Error | null): void => {
    if (error === undefined || error === null) this.#flushed();
  };
}

const nothing = Buffer.alloc(0);

export interface ReadCall extends HttpCheck {
  /** The caller asks to close the connection after the answer. */
  readonly isLast: boolean;
  /** It is remembered, because it may come again. */
  isKept: boolean;
  /** Of the request that the call is about; null: not read yet. */
  head: RequestHead | null;
}

/** With what is read from it, a call takes about five times its size. */
const maxBytes = 2 * 1024;

/** After so many different calls, only one in as many is remembered: most connections carry calls of many clients. */
const maxMisses = 16;

/**
 * Remembers the last call of a connection. Many requests of one client for one target make an ingress send the same bytes
 * again: then what was read from them is used again, which is much cheaper. The bytes are compared, so the result is the
 * same.
 */
export class CallMemory {
  #bytes: Buffer | null = null;
  #length = 0;
  #call: ReadCall | null = null;
  /** Calls since one came again. */
  #misses = 0;

  /** Returns the last call if it had the same bytes. */
  find(packet: Buffer): ReadCall | null {
    const call = this.#call;
    if (call === null || this.#bytes === null || packet.length !== this.#length) return null;
    if (packet.compare(this.#bytes, 0, this.#length) !== 0) return null;
    this.#misses = 0;
    return call;
  }

  /** Returns whether the call is kept, so that what is read from it is worth keeping too. */
  keep(packet: Buffer, call: ReadCall): boolean {
    this.#misses += 1;
    this.#call = null;
    if (packet.length > maxBytes || (this.#misses > maxMisses && this.#misses % maxMisses !== 0)) return false;
    this.#bytes ??= Buffer.allocUnsafeSlow(maxBytes);
    packet.copy(this.#bytes);
    this.#length = packet.length;
    this.#call = call;
    return true;
  }
}

/**
 * Reads a check from each of the three protocols over HTTP: nginx' auth_request, the forward-auth of Caddy and Traefik
 * (and of the Lua script for HAProxy), and ext_authz of Envoy and Istio. Only the path of the call tells which one it
 * is, because a client can write any field that its ingress does not set.
 */
interface HttpCheck {
  readonly method: string;
  readonly target: string;
  /** As they came. */
  readonly rawHeaders: HeaderList;
}

const extAuthzPrefix = "/ext-authz";

const methodToken = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

export function readHttpCheck({ method, target, rawHeaders }: HttpCheck): Check | CheckProblem {
  if (target.startsWith(`${extAuthzPrefix}/`)) {
    return withClient(rawHeaders, method, { target: target.slice(extAuthzPrefix.length), host: null });
  }
  const path = target.split("?", 1)[0];
  if (path !== "/auth-request" && path !== "/forward-auth") return checkProblems.noEndpoint;
  const isAuthRequest = path === "/auth-request";
  const asked = onlyHeaderValue(rawHeaders, isAuthRequest ? "x-original-method" : "x-forwarded-method") ?? "";
  const named = isAuthRequest ? readOriginal(rawHeaders) : readNamed(onlyHeaderValue(rawHeaders, "x-forwarded-uri"));
  return named !== null && methodToken.test(asked) ? withClient(rawHeaders, asked, named) : checkProblems.noTarget;
}

/** What a call names of the client's request. An empty target is refused by the pipeline, and the client is charged. */
interface NamedTarget {
  readonly target: string;
  /** Null: the one in Host. */
  readonly host: string | null;
}

function readNamed(target: string | undefined): NamedTarget | null {
  return target === undefined || target === "" ? null : { target, host: null };
}

/**
 * Reads the target that nginx names: `$request_uri` in X-Original-URI, or, as the template of ingress-nginx does it, the
 * complete URL `$scheme://$http_host$request_uri` in X-Original-URL. The URL is cut by bytes: with a catch-all server the
 * client chooses the whole host, and a URL parser would find the path of `http://a?/v2/me` somewhere else. Where the
 * ingress sets one of the two fields, the other one is the client's, so they have to agree.
 */
function readOriginal(rawHeaders: HeaderList): NamedTarget | null {
  const [url, anotherUrl] = headerValues(rawHeaders, "x-original-url");
  if (anotherUrl !== undefined) return null;
  if (url === undefined) {
    const named = readNamed(onlyHeaderValue(rawHeaders, "x-original-uri"));
    return named === null || named.target === "*" || named.target.startsWith("/") ? named : refused;
  }
  const [, host = "", target = ""] = /^https?:\/\/([^/]*)(\/.*)$/s.exec(url) ?? [];
  const isNamedOnce = headerValues(rawHeaders, "x-original-uri").every((uri) => uri === target);
  return isNamedOnce && isValidHost(host) ? { target, host } : refused;
}

const refused: NamedTarget = { target: "", host: null };

/**
 * The ingress writes the last entry of X-Forwarded-For, the address of its peer; the entries before it came from that peer.
 * No other field is used, whatever `clientAddress.header` is: an ingress passes a client's own Forwarded on.
 */
function withClient(all: HeaderList, method: string, { target, host }: NamedTarget): Check {
  const rawHeaders: string[] = [];
  let line = "";
  let isFirst = true;
  for (let i = 0; i < all.length; i += 2) {
    const [name = "", value = ""] = [all[i], all[i + 1]];
    if (!isNamed(name, "x-forwarded-for")) {
      if (host === null || !isNamed(name, "host")) rawHeaders.push(name, value);
    } else {
      line = isFirst ? value : `${line},${value}`;
      isFirst = false;
    }
  }
  if (host !== null) rawHeaders.push("Host", host);
  const lastComma = line.lastIndexOf(",");
  if (lastComma !== -1) rawHeaders.push("X-Forwarded-For", line.slice(0, lastComma));
  return { peerAddress: trimBlanks(line, lastComma + 1), method, target, rawHeaders };
}
