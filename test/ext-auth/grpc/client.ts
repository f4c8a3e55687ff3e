// A gRPC client as applications use it, and one below it that sends whatever bytes it is told to.
import { once } from "node:events";
import { type ClientHttp2Session, connect } from "node:http2";
import { connect as connectTcp } from "node:net";
import { Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import type { Cleanup } from "../../support/cleanup.ts";
import type { Method } from "./protocol.ts";

export interface Reply<T> {
  /** By its name in gRPC. */
  readonly status: string;
  readonly details: string;
  readonly message: T | null;
}

export interface CallOptions {
  readonly metadata?: Readonly<Record<string, string>>;
}

export function openClient(cleanup: Cleanup, port: number): Client {
  return cleanup(new Client(`127.0.0.1:${port}`, credentials.createInsecure()));
}

export function call<T>(
  client: Client,
  method: Method,
  request: object,
  { metadata = {} }: CallOptions = {},
): Promise<Reply<T>> {
  const fields = new Metadata();
  for (const [name, value] of Object.entries(metadata)) fields.set(name, value);
  return new Promise((resolve) => {
    const done = (error: ServiceError | null, message?: object): void => {
      const code = error === null ? status.OK : error.code;
      resolve({ status: status[code], details: error?.details ?? "", message: (message as T | undefined) ?? null });
    };
    // It ends what hangs.
    const options = { deadline: new Date(Date.now() + 30_000) };
    client.makeUnaryRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      request,
      fields,
      options,
      done,
    );
  });
}

export interface RawReply {
  readonly httpStatus: number;
  /** grpc-status and grpc-message, from the trailers or from a head without a body. */
  readonly grpcStatus: string | undefined;
  readonly grpcMessage: string | undefined;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
  readonly resetCode: number;
}

export async function openSession(
  cleanup: Cleanup,
  port: number,
  localAddress = "127.0.0.1",
): Promise<ClientHttp2Session> {
  const session = connect("http://127.0.0.1", {
    createConnection: () => connectTcp({ port, host: "127.0.0.1", localAddress }),
  });
  session.on("error", () => {});
  cleanup(() => session.destroy());
  await once(session, "connect");
  return session;
}

/** `pieces` are sent as they are, frames and all; without `ends` the request stays open. */
export function callRaw(
  session: ClientHttp2Session,
  path: string,
  pieces: readonly Buffer[],
  { fields = {}, ends = true }: { fields?: Record<string, string>; ends?: boolean } = {},
): Promise<RawReply> {
  const head = { ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers", ...fields };
  const stream = session.request(head);
  return new Promise((resolve) => {
    let answered: Record<string, unknown> = {};
    let trailers: Record<string, unknown> = {};
    const chunks: Buffer[] = [];
    stream.on("response", (received) => {
      answered = received;
    });
    stream.on("trailers", (received) => {
      trailers = received;
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", () => {});
    stream.on("close", () => {
      const all = { ...answered, ...trailers };
      resolve({
        httpStatus: Number(answered[":status"] ?? 0),
        grpcStatus: all["grpc-status"] as string | undefined,
        grpcMessage: all["grpc-message"] as string | undefined,
        fields: answered,
        body: Buffer.concat(chunks),
        resetCode: stream.rstCode,
      });
    });
    for (const piece of pieces) stream.write(piece);
    if (ends) stream.end();
  });
}

export function frame(message: Buffer, flag = 0, length = message.length): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = flag;
  prefix.writeUInt32BE(length, 1);
  return Buffer.concat([prefix, message]);
}
