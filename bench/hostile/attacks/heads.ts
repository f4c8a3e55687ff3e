// Request heads over HTTP/1.1 that cost more than their bytes: targets, fields and framing.
import { type Attack, attackerAddress, type Keys, text } from "../attack.ts";
import { again, type StreamOptions, stream } from "../stream.ts";
import { fieldLines, get, repeated, requestHead, usual } from "./requests.ts";

interface HeadOptions extends Partial<StreamOptions> {
  readonly keys?: Keys;
}

/** The same head again and again, on a few connections that are replaced when the gateway closes them. */
function headsOf(name: string, what: string, head: Buffer, { keys, ...more }: HeadOptions = {}): Attack {
  const send = stream({ connections: 8, next: again(head), requests: 1, ...more });
  return { name, carrier: "http1", what, ...(keys === undefined ? {} : { keys }), send };
}

/** For short requests: at most 2,000 per second, which cost what as many ordinary requests cost. */
const short = { bytesPerSecond: 300_000 };

/** A path with many readings: with an authority, backslashes, four decodings, and parameters, or without each. */
export const oddTarget = `//a\\%252525252f%5c;a%2f${"//".repeat(4030)}\\/\\/\\/`;

const routes = Array.from({ length: 64 }, (_, i) => `/v${i + 1}/`);
const trustedProxies = [attackerAddress, ...Array.from({ length: 1023 }, (_, i) => `10.${i >> 8}.${i & 255}.0/24`)];
const trustedEntries = Array.from({ length: 1000 }, () => "10.3.254.1").join(",");

/** By as much as the answer about them has room for. */
const manyPolicies = Array.from({ length: 32 }, (_, i) => ({
  ...{ name: `by-${i}`, limit: 1_000, window: "60s" },
  key: i < 8 ? ["client", "method"] : ["client"],
}));

export const heads: readonly Attack[] = [
  headsOf("target-odd", "8 KB targets of odd characters", get(oddTarget)),
  headsOf("target-odd-64-routes", "the same with 64 routes", get(oddTarget), { keys: { routes } }),
  headsOf("target-odd-under-route", "the same under a route", get(`/v1${oddTarget}`)),
  headsOf("target-dots", "8 KB targets of dot segments", get(`/v1/${"a/../".repeat(1600)}`)),
  headsOf("target-slashes", "8 KB targets of slashes", get(`/v1${"/".repeat(8000)}`)),
  headsOf("target-encoded", "8 KB targets of encoded letters", get(`/v1/${"%41".repeat(2600)}`)),
  headsOf("target-encoded-often", "8 KB targets that are encoded many times", get(`/v1/${"%25".repeat(2000)}2f..`)),
  headsOf("target-parameters", "8 KB targets of path parameters", get(`/v1/${";a=b".repeat(2000)}`)),
  headsOf("target-query", "15 KB of query", get(`/v1/ok?${"a=%5c&".repeat(2500)}`)),
  headsOf("target-absolute", "8 KB authorities in absolute targets", get(`http://${"a.".repeat(4000)}b/v1/ok`)),
  headsOf("method-long", "8 KB of method", requestHead("M".repeat(8000), "/v1/ok")),
  headsOf("host-long", "8 KB of Host", text(`GET /v1/ok HTTP/1.1\r\nHost: ${"a.".repeat(4000)}b\r\n\r\n`)),
  headsOf("fields-shortest", "16 KB of the shortest fields", get("/v1/ok", "a:\r\n".repeat(3900))),
  headsOf("fields-199", "199 different fields", get("/v1/ok", fieldLines(196, "x".repeat(60)))),
  headsOf(
    "fields-same-name",
    "196 fields with the same name",
    get("/v1/ok", `Cookie: a=${"b".repeat(60)}\r\n`.repeat(196)),
  ),
  headsOf("field-15-kb", "one field of 15 KB", get("/v1/ok", `X-Long: ${"x".repeat(15_000)}\r\n`)),
  headsOf("head-too-large", "heads of 17 KB", get("/v1/ok", `X-Long: ${"x".repeat(17_000)}\r\n`)),
  headsOf("names-odd", "field names that are like object keys or odd tokens", get("/v1/ok", oddNames())),
  headsOf("connection-names", "13 KB of names in Connection", get("/v1/ok", `Connection: ${namesOf(2_600)}\r\n`)),
  headsOf("connection-options", "8 KB of connection options beside 180 fields", get("/v1/ok", connectionOptions())),
  headsOf(
    "blanks-in-fields",
    "15 KB of blanks around a value",
    get("/v1/ok", `X-Blank:${" \t".repeat(3700)}x${" \t".repeat(3700)}\r\n`),
  ),
  headsOf(
    "tracestate-8-kb",
    "8 KB of tracestate",
    get(
      "/v1/ok",
      `traceparent: 00-${"ab".repeat(16)}-${"ab".repeat(8)}-01\r\ntracestate: ${"a=b,".repeat(2000)}a=b\r\n`,
    ),
  ),
  headsOf(
    "forwarded-for-untrusted",
    "8 KB of X-Forwarded-For from a client",
    get("/v1/ok", `X-Forwarded-For: ${"1.2.3.4,".repeat(1000)}5.6.7.8\r\n`),
  ),
  headsOf(
    "forwarded-for-trusted",
    "1,000 trusted entries, 1,024 trusted networks",
    get("/v1/ok", `X-Forwarded-For: ${trustedEntries}\r\n`),
    {
      keys: { clientAddress: { trustedProxies } },
    },
  ),
  headsOf(
    "forwarded-for-commas",
    "15,000 empty entries from a trusted proxy",
    get("/v1/ok", `X-Forwarded-For: ${",".repeat(15_000)}\r\n`),
    {
      keys: { clientAddress: { trustedProxies } },
    },
  ),
  headsOf(
    "forwarded-quoted",
    "8 KB of quoted pairs in Forwarded from a trusted proxy",
    get("/v1/ok", `Forwarded: for="${"\\\\".repeat(4000)}"\r\n`),
    {
      keys: { clientAddress: { trustedProxies, header: "forwarded" } },
    },
  ),
  headsOf(
    "token-8-kb",
    "401: an 8 KB token that is malformed",
    requestHead("GET", "/v1/ok", `Authorization: Bearer ${"=a".repeat(4000)}\r\n`),
  ),
  headsOf("token-missing", "401", text("GET /v1/ok HTTP/1.1\r\nHost: api.test\r\n\r\n"), short),
  headsOf("not-found", "404", get("/none"), short),
  headsOf("throttled", "429", get(), short),
  headsOf("http-1.0", "HTTP/1.0, each on a new connection", text(`GET /v1/ok HTTP/1.0\r\n${usual}\r\n`), short),
  headsOf("method-head", "HEAD", requestHead("HEAD", "/v1/ok"), short),
  headsOf("options-asterisk", "OPTIONS *", requestHead("OPTIONS", "*"), short),
  headsOf("connect", "CONNECT", requestHead("CONNECT", "api.test:443"), short),
  headsOf(
    "pipelined",
    "17 requests in each packet",
    repeated("GET /v1/ok HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\n\r\n", 17),
    { requests: 17, bytesPerSecond: 300_000 },
  ),
  headsOf("pipelined-not-found", "31 heads in each packet, 404", repeated("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 31), {
    requests: 31,
    bytesPerSecond: 100_000,
  }),
  headsOf("own-quota", "how much is left of 32 policies by route and method", get("/quota"), {
    keys: { quota: { path: "/quota" }, policies: manyPolicies },
    ...short,
  }),
  headsOf("lines-empty", "empty lines before a request", repeated("\r\n", 700), { requests: 0 }),
  headsOf(
    "garbage",
    "random bytes",
    Buffer.from(Array.from({ length: 1400 }, (_, i) => (i * 7919 + (i >> 3) * 31) & 255)),
    { requests: 0 },
  ),
  headsOf("line-folded", "folded field lines", get("/v1/ok", `X-Folded: a\r\n${" b\r\n".repeat(300)}`)),
  headsOf("head-1-byte-packets", "heads in packets of one byte", get("/v1/ok", fieldLines(20, "x".repeat(60))), {
    connections: 4,
    packetBytes: 1,
  }),
  headsOf(
    "hello-tls-on-plain",
    "a TLS record on the plain port",
    Buffer.concat([Buffer.from([0x16, 3, 1, 2, 0]), Buffer.alloc(507, 1)]),
    { requests: 0, bytesPerSecond: 300_000 },
  ),
];

function oddNames(): string {
  const names = ["constructor", "hasOwnProperty", "0", "1", "4294967295", "!#$%&'*+-.^`|~", "toString"];
  return names
    .flatMap((name) => Array.from({ length: 20 }, (_, i) => `${name}${i % 4 === 0 ? "" : i}: x\r\n`))
    .join("");
}

function connectionOptions(): string {
  return `Connection: ${namesOf(1600)}\r\n${fieldLines(180)}`;
}

function namesOf(count: number): string {
  return Array.from({ length: count }, (_, i) => `x${i.toString(36)}`).join(",");
}
