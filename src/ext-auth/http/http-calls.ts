// What does not depend on how a call is read: who may ask, what is asked about, and how it is answered or refused.
import type { Socket } from "node:net";
import type { CheckRefusal } from "../../core/check-refusal.ts";
import type { RequestHead } from "../../core/request-head.ts";
import type { Replaceable } from "../../core/traffic-settings.ts";
import { CallerConnections } from "../caller-connections.ts";
import type { CheckAnswer, CheckCaller, Checks, CheckTransport } from "../check.ts";
import { type CheckProblem, checkProblems } from "../check-problems.ts";
import type { CheckSettings } from "../check-settings.ts";
import type { ReadCall } from "./call-memory.ts";
import { type HttpCheck, readHttpCheck } from "./http-check.ts";

export interface HttpCallsOptions {
  readonly settings: Replaceable<CheckSettings>;
  readonly checks: Checks;
  /** `caller` is an address. */
  readonly onRefused: (reason: CheckRefusal, caller: string, detail: string | null) => void;
}

/** Who asks over HTTP, and gets the answer. */
export interface HttpCaller extends CheckCaller {
  readonly socket: Socket;
  /** Of the connection; undefined once it is closed. */
  readonly address: string | undefined;
  answer(answer: CheckAnswer): void;
  /** Reads no more calls, and closes the connection after the answer to this one. */
  endAfterAnswer(): void;
}

export class HttpCalls {
  readonly connections: CallerConnections;
  readonly #options: HttpCallsOptions;
  /** Every answer closes its connection. */
  isEnding = false;

  constructor(options: HttpCallsOptions) {
    this.#options = options;
    const { settings, onRefused } = options;
    this.connections = new CallerConnections({
      settings,
      listener: "http",
      onClosed: (address) => onRefused("overloaded", address, null),
    });
  }

  get settings(): CheckSettings {
    return this.#options.settings.current;
  }

  /** Has the call answered: once, at once or later. Nothing of the call is read if it comes from an untrusted caller. */
  begin(call: HttpCheck | ReadCall, caller: HttpCaller, transport: CheckTransport): void {
    if (!this.settings.callers.admits(caller.address, call.rawHeaders)) {
      caller.endAfterAnswer();
      caller.answer(this.refusal("untrusted", checkProblems.untrusted, caller.address));
      return;
    }
    this.connections.promote(caller.socket);
    const { checks } = this.#options;
    const head = this.#knownHead(call) ?? this.#readHead(call);
    if ("peer" in head) checks.ask(head, transport);
    else caller.answer(this.refusal("malformed", head, caller.address));
  }

  #knownHead(call: HttpCheck | ReadCall): RequestHead | null {
    const head = "head" in call ? call.head : null;
    return head?.peer.rules === this.settings.clientAddress ? head : null;
  }

  #readHead(call: HttpCheck | ReadCall): RequestHead | CheckProblem {
    const reading = readHttpCheck(call);
    if (!("peerAddress" in reading)) return reading;
    const isKept = "head" in call && call.isKept;
    const head = this.#options.checks.read(reading, isKept);
    if (isKept) call.head = head;
    return head ?? checkProblems.noClient;
  }

  /** Counts and logs a refusal, and returns its answer. */
  refusal(reason: CheckRefusal, problem: CheckProblem, address: string | undefined): CheckAnswer {
    this.#options.onRefused(reason, address ?? "", problem.errMsg);
    return this.#options.checks.refuse(problem);
  }
}
