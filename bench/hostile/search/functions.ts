// The parts of the gateway that only read bytes, as functions of an input. Thousands of inputs per second can be tried
// on them, and their cost at twice the size shows whether it grows faster than linearly.
import { wantsOpenMetrics } from "../../../src/admin/request-fields.ts";
import { readBearer } from "../../../src/core/authentication.ts";
import { type ClientAddressRules, readClient, readPeer } from "../../../src/core/client-address.ts";
import { connectionOptions } from "../../../src/core/headers.ts";
import { maxFields } from "../../../src/core/http-bounds.ts";
import { parseCidr } from "../../../src/core/ip-address.ts";
import { readMessage, readTarget } from "../../../src/core/message-check.ts";
import { NetworkSet } from "../../../src/core/network-set.ts";
import { createPathReader } from "../../../src/core/request-path.ts";
import { mayUpgrade } from "../../../src/core/upgrade.ts";
import { readCheckRequest, readRateLimitRequest } from "../../../src/ext-auth/grpc/envoy-messages.ts";
import { readQuestions } from "../../../src/ext-auth/grpc/rate-limit.ts";
import { readHttpCheck } from "../../../src/ext-auth/http/call-connection.ts";
import { readHead } from "../../../src/http1/request-head.ts";
import { RememberedHeads, ResponseParser } from "../../../src/http1/response-parser.ts";
import { HpackDecoder } from "../../../src/http2/hpack.ts";
import { ProxyHeaderReader } from "../../../src/listener/proxy-header.ts";
import { loggedPath, redactLine } from "../../../src/telemetry/log.ts";
import { http1Dictionary } from "./http1-class.ts";
import { http2Dictionary, http2Seeds } from "./http2-class.ts";
import { type ContentPart, frameTypes, type Part, text } from "./input.ts";
import { checkMessage, grpcDictionary, rateLimitMessage } from "./other-classes.ts";

export interface ReadingFunction {
  readonly name: string;
  readonly seeds: readonly (readonly Part[])[];
  readonly tokens: readonly ContentPart[];
  /** May throw, as for bytes that it refuses. */
  readonly read: (bytes: string) => unknown;
}

const routes = (count: number) => Array.from({ length: count }, (_, i) => `/v${i}/`);
const onePath = createPathReader(routes(1), "/").read;
const manyPaths = createPathReader(routes(64), "/api").read;
const seeds = (...texts: readonly string[]) => texts.map((each) => [text(each)]);
const paths = seeds("/v0/x", "/v0/%2e%2e/;a\\b//c?d", "/api/v1/../v2/%252f/x");

const loopback = parseCidr("127.0.0.0/8");
const networks = Array.from({ length: 1023 }, (_, i) => parseCidr(`10.${i >> 8}.${i & 255}.0/24`));
const trustedProxies = new NetworkSet([...networks, loopback].filter((network) => network !== undefined));
const rules: ClientAddressRules = { header: "x-forwarded-for", trustedProxies, ipv6Prefix: 64 };
const peer = readPeer("127.0.0.1", rules);
const websocket = new Set(["websocket"]);

/** Lines of `name:value`, in the form and the number that Node gives them. */
function fieldsOf(lines: string): string[] {
  return lines.split("\n", maxFields).flatMap((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, Math.max(0, colon)), line.slice(colon + 1)];
  });
}

const sink = {
  onInterim() {},
  onHead() {},
  onBody: () => false,
};

function readResponse(response: string, pieceBytes: number): void {
  const parser = new ResponseParser(sink, new RememberedHeads());
  parser.begin("GET");
  const bytes = Buffer.from(response, "latin1");
  for (let at = 0; at < bytes.length; at += pieceBytes) parser.execute(bytes.subarray(at, at + pieceBytes));
}

const fields = "host:a\nauthorization:bearer t\nconnection:close\nupgrade:websocket\nx-a:b";
const answer =
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3;a=b\r\nabc\r\n0\r\nA: b\r\n\r\n";
const message = { method: "GET", target: "/v1/x", httpVersion: "1.1" } as const;

const readings: readonly Omit<ReadingFunction, "tokens">[] = [
  { name: "path with 1 route", seeds: paths, read: onePath },
  { name: "path with 64 routes", seeds: paths, read: manyPaths },
  { name: "target", seeds: seeds("/v1/x?y", "http://a:80/x"), read: (bytes) => readTarget(bytes, "GET") },
  {
    name: "fields of a request",
    seeds: seeds(fields),
    read: (bytes) => readMessage({ ...message, rawHeaders: fieldsOf(bytes) }),
  },
  {
    name: "upgrade and connection",
    seeds: seeds(fields),
    read: (bytes) => [upgrade(fieldsOf(bytes)), connectionOptions(fieldsOf(bytes))],
  },
  { name: "authorization", seeds: seeds("Bearer abc="), read: (bytes) => readBearer(["authorization", bytes]) },
  {
    name: "x-forwarded-for",
    seeds: seeds("127.0.0.1, [::1]:80,"),
    read: (bytes) => readClient(peer, ["x-forwarded-for", bytes], rules),
  },
  {
    name: "forwarded",
    seeds: [
      [text('for=127.0.0.1;by="a\\"b", for="[::1]:80"')],
      // A node without its closing bracket: each colon was once tried as the first of the address.
      [text('for="['), text(":", 16_000), text('"')],
    ],
    read: (bytes) => readClient(peer, ["forwarded", bytes], { ...rules, header: "forwarded" }),
  },
  {
    name: "request head",
    seeds: seeds("POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"),
    read: (bytes) => readHead(Buffer.from(bytes, "latin1")),
  },
  { name: "response", seeds: seeds(answer), read: (bytes) => readResponse(bytes, bytes.length || 1) },
  { name: "response in small pieces", seeds: seeds(answer), read: (bytes) => readResponse(bytes, 16) },
  {
    name: "proxy header",
    seeds: seeds(
      "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
      "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x09\x7f\0\0\x01\0\x01\0\x02",
    ),
    read: (bytes) => new ProxyHeaderReader().read(Buffer.from(bytes, "latin1")),
  },
  { name: "header block of http2", seeds: http2Seeds.map(blockOf), read: readBlock },
  {
    name: "check message",
    seeds: [checkMessage],
    read(bytes) {
      const rawHeaders = readCheckRequest(Buffer.from(bytes, "latin1"))?.rawHeaders ?? [];
      return readMessage({ ...message, rawHeaders });
    },
  },
  {
    name: "rate limit message",
    seeds: [rateLimitMessage],
    read(bytes) {
      const request = readRateLimitRequest(Buffer.from(bytes, "latin1"));
      return request && readQuestions(request, ["per-ip"]);
    },
  },
  {
    name: "check over http",
    seeds: seeds(
      "x-original-uri:/v1/x\nx-original-method:GET\nx-forwarded-for:10.0.0.1, 10.0.0.2",
      "x-original-url:http://a:80/v1/x\nx-original-method:GET\nx-forwarded-for:10.0.0.1",
    ),
    read: (bytes) => readHttpCheck({ method: "GET", target: "/auth-request", rawHeaders: fieldsOf(bytes) }),
  },
  {
    name: "accept",
    seeds: seeds("bytes/plain;q=0.5, application/openmetrics-bytes; version=1.0.0"),
    read: wantsOpenMetrics,
  },
  {
    name: "logged path",
    seeds: paths,
    read: (bytes) => redactLine(`{"path":"${loggedPath(bytes)}","method":${JSON.stringify(bytes)}}`),
  },
];

/** Returns the contents of the HEADERS frames of a seed. */
function blockOf(seed: readonly Part[]): readonly ContentPart[] {
  return seed.flatMap((part) => (part.kind === "frame" && part.type === frameTypes.headers ? part.parts : []));
}

function readBlock(block: string): unknown {
  const bytes = Buffer.from(block, "latin1");
  return new HpackDecoder().decode(bytes, 0, bytes.length);
}

/** The dictionaries, by the end of the function's name. All other functions use the tokens of HTTP/1. */
const dictionaries = { message: grpcDictionary, http2: http2Dictionary } as const;

export const functions: readonly ReadingFunction[] = readings.map((each) => {
  const own = Object.entries(dictionaries).find(([end]) => each.name.endsWith(end));
  return { ...each, tokens: (own?.[1] ?? http1Dictionary).inner };
});

function upgrade(rawHeaders: string[]): boolean {
  return mayUpgrade({ ...message, rawHeaders }, websocket);
}
