// Ordinary requests, which the attacks are compared with.
import { connect } from "node:http2";
import { type Attack, connectionBytes, type Sender, text, wireBytes } from "../attack.ts";
import { again, stream } from "../stream.ts";
import { checkCall, checkHeaders } from "./grpc-messages.ts";
import { block, headers, preface, streamOf, withStream } from "./http2-bytes.ts";
import { get, requestHead, unlimited } from "./requests.ts";

const keys = { ...unlimited, listen: { maxRequestsPerConnection: 1_000_000_000, newConnectionsPerPeer: 1_000_000 } };
const requestsPerSecond = 3_000;
const uploadBytesPerSecond = 60_000_000;
const piece = Buffer.alloc(16 * 1024, "x");
const uploadHead = requestHead("POST", "/v1/ok", `Content-Length: ${64 * piece.length}\r\n`);

/** Uploads of 1 MiB. */
const uploads = (i: number): Buffer => (i % 65 === 0 ? uploadHead : piece);

const requests = (bytes: Buffer, port: "traffic" | "admin" | "checks" = "traffic", alpn?: string[]) =>
  stream({
    port,
    ...(alpn === undefined ? {} : { alpn }),
    connections: 16,
    next: again(bytes),
    requests: 1,
    bytesPerSecond: requestsPerSecond * wireBytes(bytes.length, alpn !== undefined),
  });

const fresh = (alpn?: string[]) =>
  stream({
    ...(alpn === undefined ? {} : { alpn }),
    connections: 8,
    prelude: get("/v1/ok", "Connection: close\r\n"),
    preludeRequests: 1,
    next: () => null,
    bytesPerSecond: 300 * (connectionBytes + 150),
  });

const upload = (alpn?: string[]) =>
  stream({ ...(alpn === undefined ? {} : { alpn }), next: uploads, bytesPerSecond: uploadBytesPerSecond });

interface WarmUpOptions {
  readonly alpn?: readonly string[];
  readonly isProxied?: boolean;
  /** The i-th request of a connection. */
  readonly request?: (i: number) => Buffer;
}

/** A few requests of many clients, so that ordinary code paths are compiled before anything is measured. */
const warmUp =
  ({ alpn, isProxied = false, request = () => get() }: WarmUpOptions = {}) =>
  async (sender: Sender): Promise<void> => {
    const lines = Array.from({ length: 20 }, (_, i) => {
      const before = isProxied ? text(`PROXY TCP4 127.0.3.${i + 1} 127.0.0.1 5000 80\r\n`) : undefined;
      return sender.open({
        localAddress: `127.0.3.${i + 1}`,
        ...(alpn === undefined ? {} : { alpn }),
        ...(before === undefined ? {} : { before }),
      });
    });
    let sent = 0;
    await sender.paced(2_000 * 150, () => {
      const bytes = lines[sent % lines.length]?.write(request(Math.floor(sent / lines.length))) ?? 0;
      sent += 1;
      return bytes;
    });
  };

const http2Get = headers(1, block("GET", "/v1/ok"));

function http2Request(i: number): Buffer {
  const frames = withStream(http2Get, streamOf(i));
  return i === 0 ? Buffer.concat([preface(), frames]) : frames;
}

export const ordinaryLoads: readonly Attack[] = [
  { name: "ordinary-get", carrier: "http1", what: "GET", keys, send: requests(get()) },
  { name: "ordinary-fresh", carrier: "http1", what: "GET on a new connection", keys, send: fresh() },
  { name: "ordinary-upload", carrier: "http1", what: "uploads in 16 KiB", keys, send: upload() },
  {
    name: "ordinary-download",
    carrier: "upstream",
    what: "downloads of 1 MiB",
    keys,
    send: stream({ connections: 4, next: again(get("/v1/large/1048576")), requests: 1, bytesPerSecond: 40 * 150 }),
  },
  { name: "ordinary-tls-get", carrier: "tls", what: "GET", keys, send: requests(get(), "traffic", ["http/1.1"]) },
  { name: "ordinary-tls-fresh", carrier: "tls", what: "GET on a new connection", keys, send: fresh(["http/1.1"]) },
  { name: "ordinary-tls-upload", carrier: "tls", what: "uploads in 16 KiB", keys, send: upload(["http/1.1"]) },
  {
    name: "ordinary-probe",
    carrier: "admin",
    what: "GET /livez",
    keys,
    send: requests(text("GET /livez HTTP/1.1\r\nHost: admin.test\r\n\r\n"), "admin"),
  },
  {
    name: "ordinary-check",
    carrier: "ext-auth",
    what: "a check over HTTP",
    keys,
    send: requests(
      requestHead(
        "GET",
        "/auth-request",
        "X-Original-Method: GET\r\nX-Original-URI: /v1/ok\r\nX-Forwarded-For: 192.0.2.7\r\n",
      ),
      "checks",
    ),
  },
  { name: "ordinary-warm-up", carrier: "http1", what: "GET of many clients", send: warmUp() },
  { name: "ordinary-tls-warm-up", carrier: "tls", what: "GET of many clients", send: warmUp({ alpn: ["http/1.1"] }) },
  {
    name: "ordinary-http2-warm-up",
    carrier: "http2",
    what: "GET of many clients",
    send: warmUp({ alpn: ["h2"], request: http2Request }),
  },
  { name: "ordinary-proxy-warm-up", carrier: "proxy", what: "GET of many clients", send: warmUp({ isProxied: true }) },
  { name: "ordinary-grpc-check", carrier: "grpc", what: "a check over gRPC", keys, send: grpcChecks },
  { name: "ordinary-http2-get", carrier: "http2", what: "GET", keys, send: http2Gets },
  { name: "ordinary-http2-upload", carrier: "http2", what: "uploads in 16 KiB", keys, send: http2Upload },
];

async function grpcChecks(sender: Sender): Promise<void> {
  const url = `http://127.0.0.1:${sender.ports.grpc}`;
  const calls = connect(url, { createConnection: () => sender.open({ port: "grpc", reads: false }).socket });
  const message = checkCall(checkHeaders(3));
  const wire = 60 + message.length;
  await sender.paced((requestsPerSecond / 2) * wire, () => {
    const stream = calls.request({
      ":method": "POST",
      ":path": "/envoy.service.auth.v3.Authorization/Check",
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream
      .on("error", () => {})
      .resume()
      .end(message);
    sender.counters.requests += 1;
    sender.counters.bytes += wire;
    return wire;
  });
  calls.destroy();
}

const unverified = { rejectUnauthorized: false };

async function http2Gets(sender: Sender): Promise<void> {
  const gets = connect(`https://127.0.0.1:${sender.ports.traffic}`, unverified);
  const wire = 100;
  await sender.paced((requestsPerSecond / 2) * wire, () => {
    gets
      .request({ ":path": "/v1/ok", authorization: "Bearer other" })
      .on("error", () => {})
      .resume()
      .end();
    sender.counters.requests += 1;
    sender.counters.bytes += wire;
    return wire;
  });
  gets.destroy();
}

async function http2Upload(sender: Sender): Promise<void> {
  const uploads = connect(`https://127.0.0.1:${sender.ports.traffic}`, unverified);
  const open = () =>
    uploads
      .request({ ":method": "POST", ":path": "/v1/ok", authorization: "Bearer other" })
      .on("error", () => {})
      .resume();
  let stream = open();
  let left = 64;
  await sender.paced(uploadBytesPerSecond, () => {
    if (stream.writableLength > 4 * piece.length) return 0;
    stream.write(piece);
    left -= 1;
    if (left === 0) {
      stream.end();
      stream = open();
      left = 64;
    }
    const wire = wireBytes(piece.length + 9, true);
    sender.counters.bytes += wire;
    return wire;
  });
  uploads.destroy();
}
