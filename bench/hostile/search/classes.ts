// The classes of inputs: what carries each, which gateway it goes to, and what an ordinary request of the same class is.
import { type Carrier, exhaustedAddress } from "./conversation.ts";
import { http1Dictionary, http1Seeds, ordinaryGet, ordinaryRequest } from "./http1-class.ts";
import { http2Dictionary, http2Seeds, ordinaryStream } from "./http2-class.ts";
import { maxInputBytes, type Part, render, text } from "./input.ts";
import type { Dictionary } from "./mutate.ts";
import {
  adminSeeds,
  checkDictionary,
  checkSeeds,
  grpcCheck,
  grpcDictionary,
  grpcSeeds,
  proxyDictionary,
  proxySeeds,
  responseDictionary,
  responseSeeds,
} from "./other-classes.ts";
import type { Profile } from "./stage.ts";
import { ordinaryHello, tlsDictionary, tlsSeeds } from "./tls-class.ts";

export interface InputClass {
  readonly name: string;
  readonly profile: Profile;
  readonly carrier: Carrier;
  readonly seeds: readonly (readonly Part[])[];
  readonly dictionary: Dictionary;
  /** An ordinary request of about so many bytes. */
  readonly ordinary: (bytes: number) => readonly Part[];
  /** The input is what the upstream answers to this request. */
  readonly asks?: Buffer;
}

const plain: Carrier = { listener: "traffic", alpn: null, address: null };
const http1 = { profile: "plain", seeds: http1Seeds, dictionary: http1Dictionary } as const;
const ordinaryHttp1 = (bytes: number) => [text(ordinaryRequest(bytes))];
const http2 = { profile: "tls", seeds: http2Seeds, dictionary: http2Dictionary, ordinary: ordinaryStream } as const;
const secure: Carrier = { ...plain, alpn: "h2" };
const padded = (line: string) => (bytes: number) => {
  const field = `X-A: ${"b".repeat(Math.max(0, bytes - line.length - 10))}\r\n`;
  return [text(line.replace(/\r\n\r\n$/, `\r\n${bytes > line.length ? field : ""}\r\n`))];
};

const response = {
  profile: "answered",
  seeds: responseSeeds,
  dictionary: responseDictionary,
  ordinary: ordinaryResponse,
} as const;

export const classes: readonly InputClass[] = [
  { name: "http1", ...http1, carrier: plain, ordinary: ordinaryHttp1 },
  { name: "http1 without quota", ...http1, carrier: { ...plain, address: exhaustedAddress }, ordinary: ordinaryHttp1 },
  {
    name: "http1 over tls",
    ...http1,
    profile: "tls",
    carrier: { ...plain, alpn: "http/1.1" },
    ordinary: ordinaryHttp1,
  },
  { name: "http2", ...http2, carrier: secure },
  { name: "http2 without quota", ...http2, carrier: { ...secure, address: exhaustedAddress } },
  {
    name: "proxy header",
    profile: "proxied",
    carrier: plain,
    seeds: proxySeeds,
    dictionary: proxyDictionary,
    ordinary: (bytes) => [text(`PROXY UNKNOWN\r\n${ordinaryRequest(bytes - 15)}`)],
  },
  { name: "response", ...response, carrier: plain, asks: Buffer.from(ordinaryGet) },
  {
    name: "response to http2",
    ...response,
    profile: "answered over tls",
    carrier: secure,
    asks: render({ parts: ordinaryStream(0) }, maxInputBytes).bytes,
  },
  {
    name: "tls handshake",
    profile: "tls",
    carrier: plain,
    seeds: tlsSeeds,
    dictionary: tlsDictionary,
    ordinary: () => ordinaryHello,
  },
  {
    name: "check over http",
    profile: "plain",
    carrier: { ...plain, listener: "ext-auth" },
    seeds: checkSeeds,
    dictionary: checkDictionary,
    ordinary: padded(
      "GET /ext-authz/v1/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nX-Forwarded-For: 10.100.100.100\r\n\r\n",
    ),
  },
  {
    name: "check over grpc",
    profile: "plain",
    carrier: { ...plain, listener: "grpc" },
    seeds: grpcSeeds,
    dictionary: grpcDictionary,
    ordinary: () => grpcCheck,
  },
  {
    name: "admin",
    profile: "plain",
    carrier: { ...plain, listener: "admin" },
    seeds: adminSeeds,
    dictionary: http1Dictionary,
    ordinary: padded("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"),
  },
];

function ordinaryResponse(bytes: number): readonly Part[] {
  const body = Math.max(0, bytes - 44);
  return [text(`HTTP/1.1 200 OK\r\nContent-Length: ${body}\r\n\r\n${"x".repeat(body)}`)];
}
