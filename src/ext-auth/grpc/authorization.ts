// Envoy's external authorization service, with the same decisions as the proxy. A refusal carries the whole response that the
// proxy would send; an admission carries the fields to add to the upstream's response.
import { readHttp2Head } from "../../core/http2-head.ts";
import type { Check, Checker } from "../check.ts";
import { clientFields, lengthField, without } from "./answer-fields.ts";
import type { GrpcCall } from "./call.ts";
import { type CheckRequest, deniedCheckResponse, okCheckResponse, readCheckRequest } from "./check-messages.ts";
import { grpcCodes, statuses } from "./status.ts";

export function authorization(decide: Checker): (message: Buffer, call: GrpcCall) => Promise<void> {
  return async (message, call) => {
    const request = readCheckRequest(message);
    if (request === undefined) return call.fail(statuses.malformed);
    const decided = decide(callOf(request));
    const { status, fields, body, verdict } = decided instanceof Promise ? await decided : decided;
    if (verdict === null) return call.fail(statuses.notAnAddress);
    if (verdict.problem === null) call.reply(okCheckResponse(clientFields(fields)));
    else call.reply(deniedCheckResponse(codeOf(status), status, without(fields, lengthField), body));
  };
}

/** Envoy sends method, target and host beside the fields, and its own pseudo-header fields among them. */
function callOf({ sourceAddress, method, path, host, rawHeaders }: CheckRequest): Check {
  const own = rawHeaders.filter((_, i) => !rawHeaders[i - (i % 2)]?.startsWith(":"));
  const head = readHttp2Head([":method", method, ":path", path, ":authority", host, ...own]);
  return { ...head, peerAddress: sourceAddress, canShowToken: true };
}

/** Envoy refuses on any code but OK, and shows the code in its traces. */
function codeOf(status: number): number {
  if (status === 401) return grpcCodes.unauthenticated;
  return status === 429 ? grpcCodes.resourceExhausted : grpcCodes.permissionDenied;
}
