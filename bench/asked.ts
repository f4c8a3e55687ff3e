// What a decision costs when an ingress asks for it, over HTTP and over gRPC, beside the proxying that it stands in for.
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { connect } from "node:http2";
import { join } from "node:path";
import { promisify } from "node:util";
import { wrk } from "./load.ts";
import { cpuTimeUs, freePort, installed, start } from "./processes.ts";

const run = promisify(execFile);
const checkPath = "/envoy.service.auth.v3.Authorization/Check";
const client = "192.0.2.7";

export interface AskedResult {
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
}

export async function measureAsked({ folder, rounds, seconds, cores }: Place): Promise<AskedResult[]> {
  const [port, admin, http, grpc] = [await freePort(), await freePort(), await freePort(), await freePort()];
  const config = join(folder, "asked.yaml");
  writeFileSync(
    config,
    `listen: { host: 127.0.0.1, port: ${port} }
admin: { host: 127.0.0.1, port: ${admin} }
upstream: { url: "http://127.0.0.1:9" }
auth: { mode: "off" }
policies: [{ name: bench, limit: 1000000, window: 1s }]
log: { access: false }
extAuth:
  trustedCallers: [127.0.0.1]
  http: { enabled: true, host: 127.0.0.1, port: ${http} }
  grpc: { enabled: true, host: 127.0.0.1, port: ${grpc} }
`,
  );
  const main = join(import.meta.dirname, "../dist/main.js");
  const running = await start([process.execPath, main, "start", "--config", config], { core: cores.contender, port });
  const results: AskedResult[] = [];
  const measure = async (how: string, round: number, ask: () => Promise<number>): Promise<void> => {
    const before = cpuTimeUs(running.pid);
    const answered = await ask();
    results.push({ how, round, cpuUs: (cpuTimeUs(running.pid) - before) / answered, perSecond: answered / seconds });
  };
  const overHttp = async (): Promise<number> => {
    const headers = { "X-Original-Method": "GET", "X-Original-URI": "/v2/200b", "X-Forwarded-For": client };
    const { requests, refused } = await wrk(
      http,
      { path: "/auth-request", connections: 64, seconds, headers },
      folder,
      cores.load,
    );
    if (refused > 0) throw new Error(`${refused} of ${requests} calls over HTTP were not admitted`);
    return requests;
  };
  try {
    await verifyGrpc(grpc);
    await overHttp();
    if (installed("h2load")) await overGrpc(grpc, { folder, seconds, core: cores.load });
    for (let round = 0; round < rounds; round += 1) {
      await measure("HTTP, 64 connections", round, overHttp);
      if (!installed("h2load")) continue;
      await measure("gRPC, 4 connections of 16 streams", round, () =>
        overGrpc(grpc, { folder, seconds, core: cores.load }),
      );
    }
  } finally {
    await running.stop();
  }
  return results;
}

async function overGrpc(port: number, place: { folder: string; seconds: number; core: number }): Promise<number> {
  const message = join(place.folder, "check-request.bin");
  writeFileSync(message, checkRequest());
  const fields = ["-H", "content-type: application/grpc", "-H", "te: trailers"];
  const load = ["-c4", "-m16", "-t1", `-D${place.seconds}`, "-d", message, ...fields];
  const command = ["h2load", ...load, `http://127.0.0.1:${port}${checkPath}`];
  const { stdout } = await run("taskset", ["-c", String(place.core), ...command]);
  const succeeded = Number(/(\d+) succeeded/.exec(stdout)?.[1] ?? 0);
  if (succeeded === 0) throw new Error(`no call over gRPC succeeded: ${stdout}`);
  return succeeded;
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
