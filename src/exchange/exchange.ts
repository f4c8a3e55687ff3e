// One request and its response, whatever carries them: the one state machine for raw sockets, Node's HTTP/1, HTTP/2, an
// ingress' checks and Fastify. Every response gets its fields here, and every exchange ends here, once: it is charged
// once, logged once and counted once, however it ends.
//
//   start() ─► deciding ──verdict──► forwarding ──respond(), localReply()──► responding ──finished()──► ended
//   reject() ──┘   │                     │                                      │                         ▲
//                  │ the client leaves: the verdict is awaited, since it charges │                         │
//                  └──────────────────── clientGone(), abort() ──────────────────┴─────────────────────────┘
import type { Readable } from "node:stream";
import type { ExchangeRecord, RequestSource } from "../core/exchange-record.ts";
import type { ResponseFields } from "../core/fields.ts";
import type { HeaderList } from "../core/header-list.ts";
import { isFramingDoubtful, type LocalReply, localReplies } from "../core/local-reply.ts";
import type { Decision } from "../core/policy.ts";
import { type RequestHead, unchargedVerdict, type Verdict } from "../core/request-head.ts";
import { RecordedExchange } from "./recorded-exchange.ts";
import type { SwitchedConnection, Transport } from "./transport.ts";

/** Everything that is configured, as one snapshot. An exchange uses one Runtime from its beginning to its end. */
export interface Runtime {
  readonly source: RequestSource;
  readonly fields: ResponseFields;
  readonly nowMs: () => number;
  readonly requestId: (head: RequestHead) => string;
  readonly decide: (head: RequestHead) => Verdict | Promise<Verdict>;
  /** Returns the quota of `client` as it is now, without charging it. */
  readonly peekQuota: (client: string) => Decision | Promise<Decision>;
  /** Carries an admitted request on; has it answered through the exchange. */
  readonly forward: (exchange: Exchange) => void;
  /** Is called once for each exchange. `path` is that of the request's target, as it came. */
  readonly onEnd: (record: ExchangeRecord, path: string) => void;
  /** Is called for bugs. */
  readonly onFailure: (error: unknown) => void;
}

/** Holds the Runtime that new exchanges use, and knows the exchanges whose verdict is awaited. */
export class RuntimeRef {
  readonly current: Runtime;
  readonly waiting = new Set<Exchange>();

  constructor(current: Runtime) {
    this.current = current;
  }

  /** Breaks off what still waits for a verdict: its connection may be gone already. */
  abortWaiting(): void {
    for (const exchange of this.waiting) exchange.abort();
  }
}

/** Whoever carries an admitted request on. */
export interface ExchangeListener {
  /** What was written to the client has left, and more may follow. */
  onDrain(): void;
  /** The exchange is over: the client has left, or has been answered. */
  onExchangeEnd(): void;
  /** Replies to the client and takes the request back, unless it is over. */
  cancel(reply: LocalReply): void;
}

type State = "deciding" | "forwarding" | "responding" | "ended";

export class Exchange extends RecordedExchange {
  readonly transport: Transport;
  /** Set by whoever carries the request on, for as long as it does. */
  listener: ExchangeListener | null = null;
  readonly #runtime: Runtime;
  readonly #waiting: Set<Exchange>;
  #state: State = "deciding";
  /** What to reply once the verdict is known. */
  #canceledWith: LocalReply | null = null;

  constructor(head: RequestHead, transport: Transport, { current, waiting }: RuntimeRef) {
    super(head);
    this.transport = transport;
    this.#runtime = current;
    this.#waiting = waiting;
  }

  /** Decides about the request and acts on the verdict, now or when it is known. */
  start(): void {
    try {
      this.id = this.#runtime.requestId(this.head);
      const verdict = this.#runtime.decide(this.head);
      if (verdict instanceof Promise) void this.#concludeLater(verdict);
      else this.#conclude(verdict);
    } catch (error) {
      this.fail(error);
    }
  }

  /** In place of `start`: answers what could not be read as a request. Shows the quota without spending it. */
  reject(reply: LocalReply): void {
    try {
      this.id = this.#runtime.requestId(this.head);
      this.#replyUncharged(reply);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Sends the head of the upstream's response. `retryAfter`: what an upstream's 429 asks for. */
  respond(status: number, reason: string, headers: string[], retryAfter: HeaderList): void {
    if (this.isEnded) return;
    const { fields } = this.#runtime;
    const decision = this.#decisionToShow();
    if (status === 429) headers.push("Retry-After", fields.largestRetryAfter(retryAfter, decision));
    this.#sendHead(status, reason, fields.always(decision, this.id, headers));
  }

  /** Answers for the gateway. If a head is out already, breaks the response off instead. */
  localReply(reply: LocalReply): void {
    if (this.isEnded) return;
    if (this.transport.isHeadSent) {
      this.abort();
      return;
    }
    this.problem = reply.reason;
    const { headers, body } = this.#runtime.fields.localReply(reply, this.#decisionToShow(), this.id);
    this.#sendHead(reply.status, reply.message, headers);
    // Where the response to a HEAD is known to have no body, it has ended by now.
    if (!this.transport.isEnded) this.transport.end(body);
  }

  /** Replies in place of whatever is under way: the request has turned out to be broken. */
  cancel(reply: LocalReply): void {
    if (this.listener !== null) this.listener.cancel(reply);
    else if (this.#state === "deciding") this.#canceledWith = reply;
    else if (!this.transport.isEnded) this.localReply(reply);
  }

  /** Answers a bug: the client is told no more than that. */
  fail(error: unknown): void {
    this.#runtime.onFailure(error);
    try {
      if (this.listener !== null) this.listener.cancel(localReplies.internal);
      else if (this.#state === "deciding") this.#replyUncharged(localReplies.internal);
      else this.localReply(localReplies.internal);
    } catch (another) {
      this.#runtime.onFailure(another);
      this.abort();
    }
  }

  /** Breaks the exchange off, in any state: half a body must not pass for a whole one. */
  abort(): void {
    if (this.isEnded) return;
    if (this.#state === "deciding") this.verdict = unchargedVerdict(this.head.peer, null);
    this.transport.abort();
    this.#end(false);
  }

  /** The client left before its response was whole. */
  clientGone(): void {
    // It was charged, or is about to be: how much is known with the verdict.
    if (this.#state !== "deciding") this.#end(false);
  }

  /** The client's connection has the whole response. */
  finished(): void {
    this.#end(true);
  }

  onDrain(): void {
    this.listener?.onDrain();
  }

  /**
   * Answers with a 101. The exchange is over then: the length of a tunnel would say nothing about how long requests
   * take, and nobody would hear of it for hours. Returns null if the client is gone.
   */
  switchProtocols(protocol: string, headers: string[]): SwitchedConnection | null {
    if (this.isEnded) return null;
    headers.push("Connection", "Upgrade", "Upgrade", protocol);
    this.#runtime.fields.always(this.#decisionToShow(), this.id, headers);
    const switched = this.transport.switchProtocols(headers);
    if (switched === null) return null;
    this.status = 101;
    this.respondedMs = this.#runtime.nowMs();
    this.#end(true);
    return switched;
  }

  get isEnded(): boolean {
    return this.#state === "ended";
  }

  get body(): Readable | Buffer {
    return this.transport.body;
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
    if (this.isEnded) return;
    this.verdict = verdict;
    this.#state = "forwarding";
    const reply = verdict.localReply ?? this.#canceledWith;
    if (this.transport.isGone) this.#end(false);
    else if (reply !== null) this.localReply(reply);
    else this.#runtime.forward(this);
  }

  #replyUncharged(reply: LocalReply): void {
    const { peer } = this.head;
    const decision = this.#runtime.peekQuota(peer.key);
    if (decision instanceof Promise) void this.#replyUnchargedLater(reply, decision);
    else this.#conclude(unchargedVerdict(peer, decision, reply));
  }

  async #replyUnchargedLater(reply: LocalReply, decision: Promise<Decision>): Promise<void> {
    this.#waiting.add(this);
    try {
      this.#conclude(unchargedVerdict(this.head.peer, await decision, reply));
    } catch (error) {
      // Not even the quota is known, so there is no response that could carry its fields.
      this.#runtime.onFailure(error);
      this.abort();
    } finally {
      this.#waiting.delete(this);
    }
  }

  #sendHead(status: number, reason: string, headers: string[]): void {
    this.transport.sendHead(status, reason, headers, this.#mustClose());
    this.#state = "responding";
    this.status = status;
    this.respondedMs = this.#runtime.nowMs();
  }

  /** Whatever it is that is answered: a throttled request may be malformed too. */
  #mustClose(): boolean {
    const { flaw } = this.verdict.parsed.message;
    return isFramingDoubtful(flaw?.reason ?? null) || isFramingDoubtful(this.problem);
  }

  /** What was decided, unless the response took so long that its reset is over: then what holds now. */
  #decisionToShow(): Decision {
    const { decision, parsed } = this.verdict;
    if (decision.resetMs > this.#runtime.nowMs()) return decision;
    const now = this.#runtime.peekQuota(parsed.client);
    return now instanceof Promise ? decision : now;
  }

  #end(complete: boolean): void {
    if (this.isEnded) return;
    this.#state = "ended";
    this.endedMs = this.#runtime.nowMs();
    this.complete = complete;
    const { listener } = this;
    this.listener = null;
    try {
      this.#runtime.onEnd(this, this.verdict.parsed.target?.path ?? "");
    } catch (error) {
      this.#runtime.onFailure(error);
    }
    listener?.onExchangeEnd();
  }
}
