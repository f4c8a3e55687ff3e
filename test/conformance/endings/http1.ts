// HTTP/1.1 as the endings need it: bytes of requests, and what is refused.
import type { Carrier } from "./carrier.ts";

const fields = "Host: a\r\nAuthorization: Bearer t\r\n";
const get = (target: string, more = ""): string => `GET ${target} HTTP/1.1\r\n${fields}${more}\r\n`;
const post = (target: string, more: string, body = ""): string =>
  `POST ${target} HTTP/1.1\r\n${fields}${more}\r\n${body}`;
const close = "Connection: close\r\n";
const length = "Content-Length: 5000\r\n";
const chunked = "Transfer-Encoding: chunked\r\n";

export const http1: Carrier = {
  prelude: async () => {},
  request: get,
  upload: (target) => post(target, length, "part"),
  partOfHead: "GET /v2/ok HTTP/1.1\r\nHost: a\r\nX: ",
  last: (target) => get(target, close),
  finish: (peer) => peer.closed(),
};

/** Each closes its connection. */
export const refusals: Readonly<Record<string, string>> = {
  malformed: "GET /v2/x HTTP/1.1\r\nHost a\r\n\r\n",
  "not HTTP": "what?\r\n\r\n",
  "no Host": "GET /v2/x HTTP/1.1\r\nConnection: close\r\n\r\n",
  "no token": "GET /v2/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
  "no route": get("/none", close),
  "an ambiguous path": get("/v1/..%2fv2/x", close),
  "a head too large": get("/v2/x", `X: ${"x".repeat(80_000)}\r\n`),
  "an unknown coding": post("/v2/x", "Transfer-Encoding: gzip\r\n", "part"),
  "a false expectation": post("/v2/x", `Expect: tea\r\n${length}`, "part"),
  "a body too large": post("/v2/x", "Content-Length: 50000\r\n", "part"),
  "chunks too large": post("/v2/never", chunked, `c000\r\n${"x".repeat(0xc000)}\r\n`),
  "a bad chunk": post("/v2/never", chunked, "2\r\nhi\r\nno\r\n"),
  "an upload to no route": post("/none", length, "part"),
  "an upload that the upstream answers early": post("/v2/ok", length + close, "part"),
  "an Upgrade to an unknown protocol": get("/v2/ok", "Upgrade: tea\r\nConnection: upgrade, close\r\n"),
  "HTTP/1.0": `GET /v2/ok HTTP/1.0\r\n${fields}\r\n`,
  HEAD: `HEAD /v2/ok HTTP/1.1\r\n${fields}${close}\r\n`,
  "OPTIONS *": `OPTIONS * HTTP/1.1\r\n${fields}${close}\r\n`,
  "20 at once": get("/v2/ok").repeat(19) + get("/v2/ok", close),
};

export const upgrade = (target: string): string => get(target, "Upgrade: websocket\r\nConnection: Upgrade\r\n");

/** A check by an ingress. */
const question = (target: string, more = ""): string =>
  `GET /auth-request HTTP/1.1\r\n${fields}X-Original-Method: GET\r\nX-Original-URI: ${target}\r\nX-Forwarded-For: 127.0.0.1\r\n${more}\r\n`;

export const check: Carrier = {
  ...http1,
  request: question,
  upload: (target) => question(target, length),
  partOfHead: "GET /auth-request HTTP/1.1\r\nHost: a\r\nX: ",
  last: (target) => question(target, close),
};

/** With a body in chunks, behind another one. */
export const chunkedCheck: Carrier = {
  ...check,
  prelude: async (peer) => {
    peer.send(`${question("/v2/ok", chunked)}0\r\n\r\n`);
    await peer.gets("HTTP/1.1 200");
  },
  upload: (target) => `${question(target, chunked)}4\r\npart\r\n`,
};

export const checkRefusals: Readonly<Record<string, string>> = {
  malformed: "GET /auth-request HTTP/1.1\r\nHost a\r\n\r\n",
  "no client": `GET /auth-request HTTP/1.1\r\n${fields}${close}\r\n`,
  "no token": question("/v2/ok", close).replace("Authorization: Bearer t\r\n", ""),
  "a head too large": question("/v2/ok", `X: ${"x".repeat(80_000)}\r\n`),
  "20 at once": question("/v2/ok").repeat(19) + question("/v2/ok", close),
};

export const adminRefusals: Readonly<Record<string, string>> = {
  malformed: "GET /metrics HTTP/1.1\r\nHost a\r\n\r\n",
  "no such page": get("/none", close),
  "a head too large": get("/livez", `X: ${"x".repeat(80_000)}\r\n`),
  "20 at once": get("/livez").repeat(20),
};

export const scrape = get("/metrics");
