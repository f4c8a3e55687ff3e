// Envoy's external authorization: the same questions and the same answers as through the proxy. A refusal is the whole
// answer that the gateway itself would give; a request that may pass brings the fields for the client's response.
import { listOf } from "../../core/headers.ts";
import { readHttp2Head } from "../../core/request-head.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import {
  type Check,
  type CheckAnswer,
  type CheckCaller,
  type Checks,
  CheckTransport,
  checkProblems,
} from "../check.ts";
import { type GrpcCall, grpcCodes, statuses } from "./call.ts";
import {
  type CheckRequest,
  clientFields,
  deniedCheckResponse,
  lengthField,
  maxCheckHeaders,
  okCheckResponse,
  readCheckRequest,
  without,
} from "./envoy-messages.ts";

/** Calls `onTooManyHeaders` for each check that is refused without a decision because it has too many headers. */
export function authorization(
  checks: Checks,
  onTooManyHeaders: (call: GrpcCall) => void,
): (message: Buffer, call: GrpcCall) => void {
  return (message, call) => {
    const request = readCheckRequest(message);
    if (request === undefined) call.fail(statuses.malformed);
    else if (request.rawHeaders.length > 2 * maxCheckHeaders) {
      onTooManyHeaders(call);
      call.reply(refusal(checks.refuse(checkProblems.headTooLarge)));
    } else if (!checks.begin(checkOf(request), new CheckTransport(new AuthorizationCaller(call)))) {
      call.fail(statuses.notAnAddress);
    }
  };
}

class AuthorizationCaller implements CheckCaller {
  readonly takesUnavailable = true;
  readonly #call: GrpcCall;

  constructor(call: GrpcCall) {
    this.#call = call;
  }

  get isGone(): boolean {
    return this.#call.isOver;
  }

  answer(answer: CheckAnswer, { problem, subject }: Exchange): void {
    if (answer.status === 200) this.#call.reply(okCheckResponse(clientFields(listOf(answer.lines)), subject));
    else if (problem === "internal") this.abort();
    else this.#call.reply(refusal(answer));
  }

  /** There is no decision: Envoy applies its own setting for failures. */
  abort(): void {
    this.#call.fail(statuses.internal);
  }
}

/** Builds a refusal. A failed call would not do: Envoy can be configured to let requests pass if the call fails. */
function refusal({ status, lines, body }: CheckAnswer): string {
  return deniedCheckResponse(codeOf(status), status, without(listOf(lines), lengthField), body);
}

/** Envoy sends method, target and host beside the headers, and its own pseudo-headers among them. */
function checkOf({ sourceAddress, method, path, host, rawHeaders }: CheckRequest): Check {
  const own = rawHeaders.filter((_, i) => !rawHeaders[i - (i % 2)]?.startsWith(":"));
  const head = readHttp2Head([":method", method, ":path", path, ":authority", host, ...own]);
  return { ...head, peerAddress: sourceAddress };
}

/** Envoy takes any but OK for a refusal, and shows it in its traces. */
function codeOf(status: number): number {
  if (status === 401) return grpcCodes.unauthenticated;
  return status === 429 ? grpcCodes.resourceExhausted : grpcCodes.permissionDenied;
}
