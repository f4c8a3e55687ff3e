// Requests that were read and wait for their turn: one address has many connections, and each sends hundreds of requests at
// once when all are open. The gateway refuses most of them.
import { type Attack, connectionBytes, type Line, type LineOptions } from "../attack.ts";
import { callHead, healthCheck, stranger } from "./grpc.ts";
import { block, flags, frame, headers, preface, streamOf, types, withStream } from "./http2-bytes.ts";
import { repeated, requestHead } from "./requests.ts";

interface Pipelined extends Pick<Attack, "name" | "carrier" | "what"> {
  readonly connections: number;
  /** Of each connection. */
  readonly requests: number;
  /** All of them, in one write. */
  readonly bytes: Buffer;
  readonly prelude?: Buffer;
  readonly line?: LineOptions;
}

function pipelined({ connections, requests, bytes, prelude, line = {}, ...attack }: Pipelined): Attack {
  const send: Attack["send"] = async (sender) => {
    const lines: Line[] = [];
    const count = Math.ceil(connections * sender.share);
    await sender.paced(connections * connectionBytes, () => {
      if (lines.length === count) {
        for (const one of lines) one.write(bytes, requests);
        // All is sent.
        return Number.POSITIVE_INFINITY;
      }
      const opened = sender.open(line);
      if (prelude !== undefined) opened.write(prelude);
      lines.push(opened);
      return connectionBytes;
    });
  };
  return { ...attack, openingSeconds: 1, send };
}

/** The same frames, each time on the next stream. */
const onStreams = (count: number, frames: Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, i) => withStream(frames, streamOf(i))));

export const pipelinedAttacks: readonly Attack[] = [
  pipelined({
    name: "pipelined-900",
    carrier: "http1",
    what: "900 connections with 1,000 requests each",
    connections: 900,
    requests: 1_000,
    bytes: repeated("GET /v1/ HTTP/1.1\r\nHost: a\r\n\r\n", 1_000),
  }),
  pipelined({
    name: "pipelined-900-no-route",
    carrier: "http1",
    what: "the same to no route",
    connections: 900,
    requests: 1_000,
    bytes: repeated("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1_000),
  }),
  pipelined({
    name: "pipelined-tls-300",
    carrier: "tls",
    what: "300 connections over TLS with 500 requests each",
    connections: 300,
    requests: 500,
    bytes: repeated("GET /v1/ HTTP/1.1\r\nHost: a\r\n\r\n", 500),
    line: { alpn: ["http/1.1"] },
  }),
  pipelined({
    name: "pipelined-http2-300",
    carrier: "http2",
    what: "300 connections with 500 requests each",
    connections: 300,
    requests: 500,
    bytes: onStreams(500, headers(1, block("GET", "/v1/"))),
    prelude: preface(),
    line: { alpn: ["h2"] },
  }),
  pipelined({
    name: "pipelined-checks-64",
    carrier: "ext-auth",
    what: "64 connections of a trusted caller with 99 checks each",
    connections: 64,
    requests: 99,
    bytes: repeated(
      requestHead(
        "GET",
        "/auth-request",
        "X-Original-Method: GET\r\nX-Original-URI: /v1/ok\r\nX-Forwarded-For: 192.0.2.7\r\n",
      ),
      99,
    ),
    line: { port: "checks" },
  }),
  pipelined({
    name: "pipelined-health-64",
    carrier: "grpc",
    what: "64 connections of a stranger with 500 health checks each",
    connections: 64,
    requests: 500,
    bytes: onStreams(
      500,
      Buffer.concat([callHead(healthCheck), frame(types.data, flags.endStream, 1, Buffer.alloc(5))]),
    ),
    prelude: preface(),
    line: { port: "grpc", localAddress: stranger },
  }),
];
