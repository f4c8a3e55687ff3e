// Checks over HTTP: a trusted caller passes on what its clients send; a stranger (an untrusted caller) sends any bytes.
import type { Attack } from "../attack.ts";
import { again, type StreamOptions, stream } from "../stream.ts";
import { oddTarget } from "./heads.ts";
import { chunkedPost, fieldLines, repeated, requestHead } from "./requests.ts";

const stranger = "127.0.0.10";
const asked = "X-Original-Method: GET\r\nX-Original-URI: /v1/ok\r\nX-Forwarded-For: 192.0.2.7\r\n";

function calls(name: string, what: string, bytes: Buffer, more: Partial<StreamOptions> = {}): Attack {
  const send = stream({ port: "checks", connections: 8, next: again(bytes), requests: 1, ...more });
  return { name, carrier: "ext-auth", what, send };
}

const check = (more: string): Buffer => requestHead("GET", "/auth-request", more);
const silent = (): null => null;

export const checkAttacks: readonly Attack[] = [
  calls(
    "check-target-odd",
    "checks of 8 KB targets",
    check(`X-Original-Method: GET\r\nX-Original-URI: ${oddTarget}\r\nX-Forwarded-For: 192.0.2.7\r\n`),
  ),
  calls(
    "check-target-odd-envoy",
    "the same as Envoy asks",
    requestHead("GET", `/ext-authz${oddTarget}`, "X-Forwarded-For: 192.0.2.7\r\n"),
  ),
  calls("check-fields", "checks with 240 fields", check(`${asked}${fieldLines(230, "x".repeat(100))}`)),
  calls("check-fields-shortest", "checks with 16 KB of the shortest fields", check(`${asked}${"a:\r\n".repeat(3900)}`)),
  calls(
    "check-forwarded-for",
    "checks with 15 KB of X-Forwarded-For",
    check(
      `X-Original-Method: GET\r\nX-Original-URI: /v1/ok\r\nX-Forwarded-For: ${"1.2.3.4,".repeat(1900)}192.0.2.7\r\n`,
    ),
  ),
  calls("check-body", "a check with a body in chunks of one byte", repeated("1\r\nx\r\n", 340), {
    connections: 1,
    prelude: chunkedPost("/auth-request", asked),
    preludeRequests: 1,
    requests: 0,
  }),
  calls("check-no-endpoint", "calls to no endpoint", requestHead("GET", "/nothing"), { bytesPerSecond: 300_000 }),
  calls("check-stranger", "calls of a stranger", check(asked), { localAddress: stranger, bytesPerSecond: 300_000 }),
  calls(
    "check-stranger-target-odd",
    "the same with 8 KB targets",
    check(`X-Original-Method: GET\r\nX-Original-URI: ${oddTarget}\r\n`),
    { localAddress: stranger },
  ),
  calls("check-stranger-idle", "256 idle connections of a stranger", check(asked), {
    localAddress: stranger,
    connections: 256,
    next: silent,
    bytesPerSecond: 300_000,
  }),
  calls("check-head-1-byte-packets", "heads in packets of one byte", check(asked), { packetBytes: 1, connections: 16 }),
];
