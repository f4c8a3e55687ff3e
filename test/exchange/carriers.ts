// Every way a request can come to the gateway, as one interface: send it, learn how it was answered, leave.
import type { IncomingHttpHeaders } from "node:http2";
import { credentials, Client as GrpcClient } from "@grpc/grpc-js";
import { check, type Method, shouldRateLimit } from "../ext-auth/grpc/protocol.ts";
import { checkRequest, rateLimitRequest } from "../ext-auth/grpc/requests.ts";
import type { Cleanup } from "../support/cleanup.ts";
import type { Overrides, TestGateway } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import type { TlsListener } from "../support/tls-listener.ts";

/** One request on its way. */
export interface Sent {
  /** The status of the answer, or null if there was none. For gRPC: 200 for OK, else null. */
  readonly answered: Promise<number | null>;
  /** Resolves when the head of an answer is here, or none will come. */
  readonly hasHead: Promise<void>;
  /** The names of the headers that the client gets, in lower case; [] if there was no answer. */
  readonly headers: Promise<readonly string[]>;
  leave(): void;
}

export interface Carrier {
  readonly name: string;
  /** Whether the gateway carries the request on to the upstream, or the caller does. */
  readonly forwards: boolean;
  /** The word for it in the access log. */
  readonly source: "proxy" | "ext-auth";
  readonly overrides: (tls: TlsListener) => Overrides;
  /** `ca`: of the gateway's certificate, where it speaks TLS. */
  readonly send: (gateway: TestGateway, cleanup: Cleanup, ca: string) => Sent;
}

const fields = "Host: a\r\nAuthorization: Bearer t\r\n";
const simple = `GET /v2/x HTTP/1.1\r\n${fields}\r\n`;
const inChunks = `POST /v2/x HTTP/1.1\r\n${fields}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n`;
const question =
  "GET /auth-request HTTP/1.1\r\nHost: headgate\r\nX-Original-Method: GET\r\nX-Original-URI: /v2/x\r\n" +
  "X-Forwarded-For: 127.0.0.1\r\nAuthorization: Bearer t\r\n\r\n";
const chunkedQuestion = `${question.slice(0, -2)}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`;

export function sendBytes(port: number, bytes: string, cleanup: Cleanup): Sent {
  const connection = cleanup(new RawConnection(port)).write(bytes);
  const hasHead = connection.readHead();
  return {
    hasHead: hasHead.then(ignore, ignore),
    answered: hasHead.then(
      ({ status }) => status,
      () => null,
    ),
    headers: hasHead.then(({ rawHeaders }) => rawHeaders.filter((_, i) => i % 2 === 0).map(lower), none),
    leave: () => connection.destroy(),
  };
}

export const carriers: readonly Carrier[] = [
  {
    name: "http1",
    forwards: true,
    source: "proxy",
    overrides: () => ({}),
    send: (gateway, cleanup) => sendBytes(gateway.traffic.port, simple, cleanup),
  },
  {
    name: "http1, with a body in chunks",
    forwards: true,
    source: "proxy",
    overrides: () => ({}),
    send: (gateway, cleanup) => sendBytes(gateway.traffic.port, inChunks, cleanup),
  },
  {
    name: "http2",
    forwards: true,
    source: "proxy",
    overrides: (tls) => tls.overrides,
    send: (gateway, cleanup, ca) => {
      const stream = new Http2Client(gateway.traffic.port, ca, cleanup).open();
      const head = new Promise<IncomingHttpHeaders>((resolve, reject) => {
        stream.once("response", resolve);
        stream.once("close", () => reject(new Error("the stream has closed")));
      });
      stream.resume();
      return {
        hasHead: head.then(ignore, ignore),
        answered: head.then(
          (headers) => Number(headers[":status"]),
          () => null,
        ),
        headers: head.then(Object.keys, none),
        leave: () => stream.destroy(),
      };
    },
  },
  {
    name: "ext-auth HTTP",
    forwards: false,
    source: "ext-auth",
    overrides: () => ({
      extAuth: { http: { host: "127.0.0.1", port: 0, maxConnections: 10 }, trustedCallers: ["127.0.0.1"] },
    }),
    send: (gateway, cleanup) => sendBytes(gateway.extAuth?.port ?? 0, question, cleanup),
  },
  {
    name: "ext-auth HTTP, with a body in chunks",
    forwards: false,
    source: "ext-auth",
    overrides: () => ({
      extAuth: { http: { host: "127.0.0.1", port: 0, maxConnections: 10 }, trustedCallers: ["127.0.0.1"] },
    }),
    send: (gateway, cleanup) => sendBytes(gateway.extAuth?.port ?? 0, chunkedQuestion, cleanup),
  },
  {
    name: "ext-auth gRPC",
    forwards: false,
    source: "ext-auth",
    overrides: grpcPort,
    send: (gateway, cleanup) => sendCall(gateway, cleanup, check, checkRequest({}, "127.0.0.1"), headersOfCheck),
  },
];

/** Not among `carriers`, because it asks for the quota alone and checks no token. */
export const rateLimitCarrier: Carrier = {
  name: "Envoy's rate limit service",
  forwards: false,
  source: "ext-auth",
  overrides: grpcPort,
  send: (gateway, cleanup) =>
    sendCall(
      gateway,
      cleanup,
      shouldRateLimit,
      rateLimitRequest({ remote_address: "127.0.0.1" }),
      ({ response_headers_to_add = [] }: { response_headers_to_add?: Header[] }) =>
        response_headers_to_add.map(({ key }) => key),
    ),
};

interface Header {
  readonly key: string;
}

interface CheckAnswer {
  readonly denied_response?: { readonly headers: readonly { readonly header: Header }[] };
  readonly ok_response?: { readonly response_headers_to_add: readonly { readonly header: Header }[] };
}

function headersOfCheck({ denied_response: denied, ok_response: ok }: CheckAnswer): string[] {
  return (denied?.headers ?? ok?.response_headers_to_add ?? []).map(({ header }) => header.key);
}

function sendCall<T>(
  gateway: TestGateway,
  cleanup: Cleanup,
  method: Method,
  request: object,
  headersOf: (answer: T) => readonly string[],
): Sent {
  const client = cleanup(new GrpcClient(`127.0.0.1:${gateway.grpc?.port}`, credentials.createInsecure()));
  let leave = (): void => {};
  const answer = new Promise<object | null>((resolve) => {
    const call = client.makeUnaryRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      request,
      (error, message) => resolve(error === null ? (message ?? {}) : null),
    );
    leave = () => call.cancel();
  });
  return {
    answered: answer.then((message) => (message === null ? null : 200)),
    hasHead: answer.then(ignore),
    headers: answer.then((message) => (message === null ? [] : headersOf(message as T))),
    leave: () => leave(),
  };
}

function grpcPort(): Overrides {
  return { extAuth: { grpc: { host: "127.0.0.1", port: 0, maxConnections: 10 }, trustedCallers: ["127.0.0.1"] } };
}

const lower = (name: string): string => name.toLowerCase();
const none = (): string[] => [];

function ignore(): void {}
