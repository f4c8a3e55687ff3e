// What a check that an ingress asks for costs, over HTTP and over gRPC, beside the proxying that it stands in for.
import { writeFileSync } from "node:fs";
import { connect } from "node:http2";
import { join } from "node:path";
import { gatewayFrame } from "./gateway-config.ts";
import { h2load, wrk } from "./load.ts";
import { cpuTimeUs, freePort, installed, start } from "./processes.ts";

const checkPath = "/envoy.service.auth.v3.Authorization/Check";
const client = "192.0.2.7";

export interface AskedResult {
  readonly id: "http" | "grpc" | "429";
  readonly how: string;
  readonly round: number;
  readonly cpuUs: number;
  readonly perSecond: number;
}

interface Place {
  readonly folder: string;
  readonly rounds: number;
  readonly seconds: number;
  readonly cores: { readonly contender: number; readonly load: number };
  readonly upstreamPort: number;
}

const connections = 64;

/** A 429 of the proxy itself is measured in the same rounds: it does the same but for the question. */
export async function measureAsked(place: Place): Promise<AskedResult[]> {
  const { folder, rounds, seconds, cores } = place;
  const withGrpc = installed("h2load");
  const asked = await startGateway(place, "limit: 100000000, window: 60s");
  const refusing = await startGateway(place, "limit: 1, window: 1h");
  const results: AskedResult[] = [];
  const measure = async (
    result: Pick<AskedResult, "id" | "how" | "round">,
    pid: number,
    ask: () => Promise<number>,
  ) => {
    const before = cpuTimeUs(pid);
    const answered = await ask();
    results.push({ ...result, cpuUs: (cpuTimeUs(pid) - before) / answered, perSecond: answered / seconds });
  };
  const overHttp = async (): Promise<number> => {
    const headers = { "X-Original-Method": "GET", "X-Original-URI": "/v2/200b", "X-Forwarded-For": client };
    const options = { connections, path: "/auth-request", seconds, headers };
    const { requests, refused } = await wrk(asked.http, options, folder, cores.load);
    if (refused > 0) throw new Error(`${refused} of ${requests} calls over HTTP were not admitted`);
    return requests;
  };
  const refusals = async (): Promise<number> => {
    const options = { connections, path: "/v2/200b", seconds };
    const { requests, refused } = await wrk(refusing.port, options, folder, cores.load);
    if (refused < requests) throw new Error(`${requests - refused} of ${requests} requests were not refused`);
    return requests;
  };
  const calls = async (): Promise<number> => {
    const headers = { "content-type": "application/grpc", te: "trailers" };
    const options = { connections: 4, streams: 16, path: checkPath, seconds, headers };
    const { requests, refused } = await h2load(asked.grpc, options, folder, cores.load, checkRequest());
    if (requests === 0 || refused > 0) throw new Error(`${refused} of ${requests} calls over gRPC did not succeed`);
    return requests;
  };
  try {
    await verifyGrpc(asked.grpc);
    await overHttp();
    await verifyRefusal(refusing.port);
    await refusals();
    if (withGrpc) await calls();
    for (let round = 0; round < rounds; round += 1) {
      await measure({ id: "http", how: "check over HTTP, 64 connections", round }, asked.running.pid, overHttp);
      await measure({ id: "429", how: "429 by the proxy, 64 connections", round }, refusing.running.pid, refusals);
      if (!withGrpc) continue;
      const how = "check over gRPC, 4 connections of 16 streams";
      await measure({ id: "grpc", how, round }, asked.running.pid, calls);
    }
  } finally {
    await asked.running.stop();
    await refusing.running.stop();
  }
  return results;
}

async function startGateway({ folder, cores, upstreamPort }: Place, limit: string) {
  const [port, admin, http, grpc] = [await freePort(), await freePort(), await freePort(), await freePort()];
  const config = join(folder, `asked-${port}.yaml`);
  writeFileSync(
    config,
    `${gatewayFrame({ port, admin, upstreamPort })}
policies: [{ name: bench, ${limit} }]
log: { access: false }
extAuth:
  trustedCallers: [127.0.0.1]
  http: { enabled: true, host: 127.0.0.1, port: ${http} }
  grpc: { enabled: true, host: 127.0.0.1, port: ${grpc} }
`,
  );
  const main = join(import.meta.dirname, "../dist/main.js");
  const running = await start([process.execPath, main, "start", "--config", config], { core: cores.contender, port });
  return { running, port, http, grpc };
}

/** The second request: the first is admitted. */
async function verifyRefusal(port: number): Promise<void> {
  const ask = (): Promise<Response> => fetch(`http://127.0.0.1:${port}/v2/200b`);
  await (await ask()).arrayBuffer();
  const { status } = await ask();
  if (status !== 429) throw new Error(`a request above the limit was answered with ${status}`);
}

/** One call whose answer is read: status OK and a message that admits (`status` with code 0 is the first field). */
async function verifyGrpc(port: number): Promise<void> {
  const session = connect(`http://127.0.0.1:${port}`);
  try {
    const stream = session.request({
      ":method": "POST",
      ":path": checkPath,
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.end(checkRequest());
    let status: unknown;
    stream.on("trailers", (trailers) => {
      status = trailers["grpc-status"];
    });
    const chunks: Buffer[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    const bytes = Buffer.concat(chunks).length;
    if (status !== "0" || bytes <= 5) throw new Error(`the call over gRPC ended with status ${status}, ${bytes} bytes`);
  } finally {
    session.destroy();
  }
}

/** A CheckRequest as Envoy sends it, framed: source address, method, path, host and a few headers. */
function checkRequest(): Buffer {
  const text = (field: number, value: string): Buffer => part(field, Buffer.from(value));
  const header = (name: string, value: string): Buffer => part(3, text(1, name), text(2, value));
  const headers = [header(":path", "/v2/200b"), header(":method", "GET"), header("x-forwarded-for", client)];
  const http = part(2, text(2, "GET"), ...headers, text(4, "/v2/200b"), text(5, "api.example.com"));
  const source = part(1, part(1, part(1, text(2, client))));
  const message = part(1, source, part(4, http));
  const frame = Buffer.alloc(5);
  frame.writeUInt32BE(message.length, 1);
  return Buffer.concat([frame, message]);
}

/** A field of protobuf that has a length; all of these are shorter than 16 KiB. */
function part(field: number, ...values: Buffer[]): Buffer {
  const value = Buffer.concat(values);
  const length = value.length < 128 ? [value.length] : [(value.length & 127) | 128, value.length >> 7];
  return Buffer.concat([Buffer.from([(field << 3) | 2, ...length]), value]);
}
