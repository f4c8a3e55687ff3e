// One request and its response, on every transport (HTTP/1, HTTP/2, an ingress' checks, Fastify).
// Every response gets its headers here, and every exchange ends here once: charged, logged and counted once.
//
//   start() ─► deciding ──verdict──► forwarding ──respond(), localReply()──► responding ──finished()──► ended
//   reject() ──┘   │                     │                                      │                         ▲
//                  │ the client leaves: the verdict is awaited, since it charges │                         │
//                  └──────────────────── clientGone(), abort() ──────────────────┴─────────────────────────┘
import type { Readable } from "node:stream";
import type { Identity } from "../core/authentication.ts";
import type { ExchangeRecord, RequestSource } from "../core/exchange-record.ts";
import type { HeaderLines } from "../core/headers.ts";
import { type LocalReply, localReplies, type RefusalReason, shareReplies } from "../core/local-reply.ts";
import { type Awaitable, type Decision, type Held, outlasts429 } from "../core/policy.ts";
import { type RequestHead, unchargedVerdict, type Verdict } from "../core/request-head.ts";
import { letsPagesRead, type ResponseFields } from "../core/response-fields.ts";
import type { ConnectionPlace } from "./connection.ts";
import { RecordedExchange } from "./recorded-exchange.ts";
import type { TokenEnds } from "./token-ends.ts";
import type { PushedBody, Transport, TunnelStart } from "./transport.ts";
import { WaitingExchanges } from "./waiting-exchanges.ts";

/** A snapshot of everything that is configured. An exchange uses one Runtime from its beginning to its end. */
export interface Runtime {
  readonly source: RequestSource;
  readonly fields: ResponseFields;
  readonly nowMs: () => number;
  /** Returns the id of a new exchange. */
  readonly newId: () => string;
  /** Whether a request's own X-Request-Id goes upstream and back, instead of the id. */
  readonly keepsIdOf: (peer: RequestHead["peer"]) => boolean;
  readonly decide: (head: RequestHead, nowMs: number) => Awaitable<Verdict>;
  /** Returns the quota of a peer without charging it. */
  readonly peekQuota: (peer: RequestHead["peer"]) => Decision;
  /** The same; counts the request as observed. */
  readonly observeQuota: (peer: RequestHead["peer"]) => Decision;
  /** Returns the quota of a decision as it is now. */
  readonly refreshQuota: (decision: Decision) => Decision;
  /** Counts a reply that spends no quota. Returns false if the client has had too many: then it gets no reply. */
  readonly mayReject: (client: string) => boolean;
  readonly tokenEnds: TokenEnds;
  /** Returns how the log and ingresses name whom a verified token stands for; null: not at all. */
  readonly subjectOf: (identity: Identity) => string | null;
  /** Forwards an admitted request, and passes its response to the exchange. */
  readonly forward: (exchange: Exchange) => void;
  /** Called once for each exchange. `path` is the unchanged path of the request's target. */
  readonly onEnd: (record: ExchangeRecord, path: string) => void;
  /** Called for bugs. */
  readonly onFailure: (error: unknown) => void;
}

/** Holds the Runtime for new exchanges, which a reload replaces, and the exchanges whose verdict is awaited. */
export class RuntimeRef {
  current: Runtime;
  readonly waiting = new WaitingExchanges<Exchange>();

  constructor(current: Runtime) {
    this.current = current;
  }
}

type ExchangeState = "deciding" | "forwarding" | "responding" | "ended";

export class Exchange extends RecordedExchange {
  readonly transport: Transport;
  waitingIndex = -1;
  /** Set while the request is forwarded. */
  listener: ExchangeListener | null = null;
  /** What the limiter holds for this exchange. */
  #held: Held | null = null;
  readonly #runtime: Runtime;
  readonly #waiting: WaitingExchanges<Exchange>;
  #state: ExchangeState = "deciding";
  /** Null if the token has no end. */
  #cancelTokenEnd: (() => void) | null = null;
  /** In `localReply`: the response ends in the moment in which it begins. */
  #isReplying = false;
  /** The reply to send once the verdict is known. */
  #canceledWith: LocalReply | null = null;

  constructor(head: RequestHead, transport: Transport, { current, waiting }: RuntimeRef) {
    super(head, current.nowMs());
    this.transport = transport;
    this.#runtime = current;
    this.#waiting = waiting;
  }

  /** Decides about the request, and acts on the verdict now or when it is known. */
  start(): void {
    try {
      this.id = this.#runtime.newId();
      const verdict = this.#runtime.decide(this.head, this.startedMs);
      if (verdict instanceof Promise) void this.#concludeLater(verdict);
      else this.#conclude(verdict);
    } catch (error) {
      this.fail(error);
    }
  }

  /**
   * Replaces `start` if the request could not be parsed: replies and shows the quota without charging it. Aborts the
   * exchange if its peer has had too many of such replies.
   */
  reject(reply: LocalReply): void {
    try {
      this.id = this.#runtime.newId();
      const { peer } = this.head;
      const mayReject = this.#runtime.mayReject(peer.key);
      const quota = this.#runtime.observeQuota(peer);
      if (mayReject) {
        this.#conclude(unchargedVerdict(this.head, quota, reply));
        return;
      }
      this.problem = localReplies.tooManyRefusals.reason;
      this.#abortWith(quota);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Sends the head of the upstream's response, as `sendHead` of transports. */
  respond(status: number, reason: string, lines: HeaderLines, hasLength: boolean, nowMs = this.#runtime.nowMs()): void {
    if (this.isEnded) return;
    const { fields } = this.#runtime;
    const decision = this.#decisionToShow(nowMs);
    const passed = status === 429 ? fields.withLongestWait(lines, this.#usedUp(nowMs)) : lines;
    const { exposed } = this;
    const more = exposed === "" || lines.includes(exposed) || !letsPagesRead(lines) ? "" : exposed;
    this.#sendHead(status, reason, passed + more + fields.always(decision, this.shownId, nowMs), hasLength, nowMs);
  }

  /** Sends a local reply. If a head has been sent already, aborts the response instead. */
  localReply(reply: LocalReply): void {
    if (this.isEnded) return;
    const { isHeadSent } = this.transport;
    this.detail = reply.detail ?? null;
    // A response that breaks off because of the upstream has a line of its own in the log.
    if (!isHeadSent || reply.status < 500) this.problem = reply.reason;
    if (isHeadSent) {
      this.abort();
      return;
    }
    const nowMs = this.#runtime.nowMs();
    const decision = this.#decisionToShow(nowMs);
    const { fields } = this.#runtime;
    const formatted = fields.inFormat(reply);
    const lines = fields.localReply(formatted, decision, this.shownId, this.head.rawHeaders, nowMs);
    this.#sendHead(reply.status, reply.message, lines, reply.status !== 204, nowMs);
    // A transport may end the response to a HEAD with its head.
    this.#isReplying = true;
    if (!this.transport.isEnded) this.transport.end(formatted.body);
    this.#isReplying = false;
  }

  /** Cancels the request, which has turned out to be malformed, and replies instead. */
  cancel(reply: LocalReply): void {
    if (this.listener !== null) this.listener.cancel(reply);
    else if (this.#state === "deciding") this.#canceledWith = reply;
    else if (!this.transport.isEnded) this.localReply(reply);
  }

  /** Reports a bug, and replies without its details. */
  fail(error: unknown): void {
    this.#runtime.onFailure(error);
    try {
      const { peer } = this.head;
      if (this.listener !== null) this.listener.cancel(localReplies.internal);
      else if (this.#state === "deciding")
        this.#conclude(unchargedVerdict(this.head, this.#runtime.peekQuota(peer), localReplies.internal));
      else this.localReply(localReplies.internal);
    } catch (another) {
      this.#runtime.onFailure(another);
      this.abort();
    }
  }

  /** Aborts the exchange in any state. An incomplete body must not look complete. */
  abort(): void {
    if (!this.isEnded) this.#abortWith(null);
  }

  /** The client left before its response was complete. */
  clientGone(): void {
    // While it is decided, the exchange ends with the verdict, which shows whether it was charged.
    if (this.#state !== "deciding") this.#end(false);
  }

  /** The response has been written completely. */
  finished(): void {
    this.#end(true);
  }

  onDrain(): void {
    this.listener?.onDrain();
  }

  /**
   * Sends a 101 and ends the exchange, because the duration of a tunnel would distort those of requests. The slots that
   * the limiter holds are held for the tunnel from now on. Returns null if the client has left.
   */
  switchProtocols(protocol: string, lines: HeaderLines): TunnelStart | null {
    if (this.isEnded) return null;
    const nowMs = this.#runtime.nowMs();
    const always = this.#runtime.fields.always(this.#decisionToShow(nowMs), this.shownId, nowMs);
    const switched = this.transport.switchProtocols(`${lines}Connection: Upgrade\r\nUpgrade: ${protocol}\r\n${always}`);
    if (switched === null) return null;
    this.status = 101;
    this.respondedMs = nowMs;
    const held = this.#held?.switched(101) ?? null;
    this.#held = null;
    this.#end(true);
    return { ...switched, held, whenTokenEnds: this.#whenTokenEnds() };
  }

  get isEnded(): boolean {
    return this.#state === "ended";
  }

  get body(): Readable | PushedBody | Buffer {
    return this.transport.body;
  }

  get requestId(): string | null {
    return this.#runtime.keepsIdOf(this.head.peer) ? this.verdict.parsed.message.requestId : null;
  }

  /** The value of X-Request-Id, upstream and back. */
  get shownId(): string {
    return this.requestId ?? this.id;
  }

  get subject(): string | null {
    const { identity } = this.verdict;
    return identity === null ? null : this.#runtime.subjectOf(identity);
  }

  /** The line that names the gateway's headers to the page that asked; empty without such a page. */
  get exposed(): HeaderLines {
    return this.#runtime.fields.exposed(this.head.rawHeaders);
  }

  get source(): RequestSource {
    return this.#runtime.source;
  }

  async #concludeLater(verdict: Promise<Verdict>): Promise<void> {
    this.#waiting.add(this);
    try {
      this.#conclude(await verdict);
    } catch (error) {
      this.fail(error);
    } finally {
      this.#waiting.delete(this);
    }
  }

  #conclude(verdict: Verdict): void {
    if (this.isEnded) {
      verdict.decision.held?.end(this.status);
      return;
    }
    this.verdict = verdict;
    this.#held = verdict.decision.held;
    this.#state = "forwarding";
    const reply = verdict.localReply ?? this.#canceledWith;
    if (this.transport.isGone) this.#end(false);
    else if (reply !== null) this.localReply(reply);
    else {
      // Tested here, because the closure of a function would allocate for each request.
      const endsMs = verdict.identity?.endsMs ?? null;
      if (endsMs !== null) this.#watchTokenEnd(endsMs);
      this.#runtime.forward(this);
    }
  }

  #watchTokenEnd(endsMs: number): void {
    this.#cancelTokenEnd = this.#runtime.tokenEnds.watch(endsMs, () => {
      if (!this.transport.isHeadSent) {
        this.cancel(localReplies.expiredToken);
        return;
      }
      this.problem = localReplies.expiredToken.reason;
      this.abort();
    });
  }

  #whenTokenEnds(): TunnelStart["whenTokenEnds"] {
    const endsMs = this.verdict.identity?.endsMs ?? null;
    const { tokenEnds } = this.#runtime;
    return endsMs === null ? null : (then) => tokenEnds.watch(endsMs, then);
  }

  /** `quota` is what the log shows if nothing has been decided; null if it is unknown. */
  #abortWith(quota: Decision | null): void {
    if (this.#state === "deciding") this.verdict = unchargedVerdict(this.head, quota);
    this.transport.abort();
    this.#end(false);
  }

  #sendHead(status: number, reason: string, lines: HeaderLines, hasLength: boolean, nowMs: number): void {
    this.transport.sendHead(status, reason, lines, hasLength, this.#mustClose());
    this.#state = "responding";
    this.status = status;
    this.respondedMs = nowMs;
  }

  /** Considers the flaw of the request too, because a throttled request may also be malformed. */
  #mustClose(): boolean {
    const { problem } = this.verdict.parsed.message;
    return isFramingDoubtful(problem?.reason ?? null) || isFramingDoubtful(this.problem);
  }

  /** Returns the decision, or the current quota if the response took so long that the decision's reset has passed. */
  #decisionToShow(nowMs: number, decision = this.verdict.decision): Decision {
    return decision.resetMs > nowMs ? decision : this.#runtime.refreshQuota(decision);
  }

  /**
   * Returns the quota that keeps the client back after the upstream's 429; null if none does. A request that no quota has
   * admitted is refused by none the next time.
   */
  #usedUp(nowMs: number): Decision | null {
    const { decision } = this.verdict;
    if (decision.outcome !== "admitted") return null;
    const quota = this.#decisionToShow(nowMs, decision.lasting ?? decision);
    return quota.remaining < quota.policy.cost && outlasts429(quota.policy) ? quota : null;
  }

  #end(complete: boolean): void {
    if (this.isEnded) return;
    this.#state = "ended";
    this.endedMs = this.#isReplying && this.respondedMs !== null ? this.respondedMs : this.#runtime.nowMs();
    this.complete = complete;
    this.#cancelTokenEnd?.();
    const { listener } = this;
    this.listener = null;
    try {
      this.#held?.end(this.status);
      this.#runtime.onEnd(this, this.verdict.parsed.target?.path ?? "");
    } catch (error) {
      this.#runtime.onFailure(error);
    }
    listener?.onExchangeEnd();
  }
}

/**
 * Starts an exchange on its connection. If its peer has as many connections with a request as it may have, refuses it: then
 * the connection stays idle, and may be closed for a new one.
 */
export function startOn(place: ConnectionPlace | null, exchange: Exchange): void {
  if (place === null || place.begin()) exchange.start();
  else exchange.reject(shareReplies.client_connections);
}

/** Returns whether, after such a refusal, client and gateway may disagree about where the next request begins. */
function isFramingDoubtful(reason: RefusalReason | null): boolean {
  return reason !== null && doubtful.has(reason);
}

const doubtful: ReadonlySet<RefusalReason> = new Set([
  "malformed",
  "bad_host",
  "bad_field_name",
  "unsupported_encoding",
]);

export interface Cancellable {
  /** Replies to the client and cancels the request, unless it has ended. */
  cancel(reply: LocalReply): void;
}

/** Implemented by what forwards an admitted request. */
export interface ExchangeListener extends Cancellable {
  /** The client has taken what was written, so more may be written. */
  onDrain(): void;
  /** The exchange has ended: the client has left, or its response is complete. */
  onExchangeEnd(): void;
}
