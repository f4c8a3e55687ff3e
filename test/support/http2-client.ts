// An HTTP/2 client over TLS, Node's own: one session to the gateway, and each answer with its fields as they came.
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import type { Cleanup } from "./cleanup.ts";
import { within } from "./eventually.ts";

export interface Http2Answer {
  readonly status: number;
  /** Names and values alternating, as they came, `:status` left out. */
  readonly rawHeaders: readonly string[];
  readonly body: string;
  /** Interim responses, in order. */
  readonly interim: readonly number[];
}

export interface Http2Ask {
  readonly method?: string;
  readonly path?: string;
  readonly fields?: Readonly<Record<string, string | string[]>>;
  readonly body?: string | Buffer;
  /** The body goes on after that, as far as the gateway knows. */
  readonly isOpen?: boolean;
}

export class Http2Client {
  readonly session: ClientHttp2Session;

  constructor(port: number, ca: string, cleanup: Cleanup) {
    this.session = connect(`https://localhost:${port}`, {
      ca,
      servername: "localhost",
      settings: { enablePush: false },
      maxSendHeaderBlockLength: 1_048_576,
    });
    this.session.on("error", () => {});
    cleanup(() => this.session.destroy());
  }

  open({ method = "GET", path = "/v2/x", fields = {}, body, isOpen = false }: Http2Ask = {}): ClientHttp2Stream {
    const head = { ":method": method, ":path": path, authorization: "Bearer secret-token", ...fields };
    const stream = this.session.request(head, { endStream: body === undefined });
    stream.on("error", () => {});
    if (isOpen) stream.write(body ?? "");
    else if (body !== undefined) stream.end(body);
    return stream;
  }

  async ask(options: Http2Ask = {}): Promise<Http2Answer> {
    return await answerOf(this.open(options));
  }
}

/** Rejects with the stream's error if it is reset before its end. */
export async function answerOf(stream: ClientHttp2Stream, deadlineMs = 8_000): Promise<Http2Answer> {
  const interim: number[] = [];
  const chunks: Buffer[] = [];
  stream.on("headers", (fields) => interim.push(Number(fields[":status"])));
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  const answer = new Promise<Http2Answer>((resolve, reject) => {
    let head: { status: number; rawHeaders: string[] } | null = null;
    // The fourth argument, which the types do not know: the fields as they came.
    stream.on("response", (...args: unknown[]) => {
      const rawHead = args.at(-1) as string[];
      head = { status: Number(rawHead[1]), rawHeaders: rawHead.slice(2) };
    });
    stream.on("error", reject);
    stream.on("close", () => {
      if (head === null || stream.rstCode !== 0) reject(new Error(`the stream was reset: ${stream.rstCode}`));
      else resolve({ ...head, body: Buffer.concat(chunks).toString("latin1"), interim });
    });
  });
  return await within("an answer", answer, deadlineMs);
}
