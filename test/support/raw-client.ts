// A client that writes exactly the bytes it is given and reads exactly the bytes that come back.
import { connect, type Socket } from "node:net";

export interface RawResponse {
  readonly status: number;
  /** Names and values alternating, as they came. */
  readonly rawHeaders: readonly string[];
  /** Everything behind the head, as it came (chunks are not put together). */
  readonly body: string;
}

/** Writes `bytes` and resolves with all that came back when the gateway closes, or after `quietMs` without a byte. */
export function exchange(port: number, bytes: string | Buffer, options: { quietMs?: number } = {}): Promise<string> {
  const { quietMs = 300 } = options;
  return new Promise((resolve) => {
    const socket: Socket = connect(port, "127.0.0.1");
    let received = "";
    // It only ends what hangs.
    let timer = setTimeout(() => socket.destroy(), 30_000);
    socket.on("data", (data) => {
      received += data.toString("latin1");
      clearTimeout(timer);
      timer = setTimeout(() => socket.destroy(), quietMs);
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(received);
    });
    socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  });
}

/** The first response of what came back. Throws if there is none. */
export function parseResponse(text: string): RawResponse {
  const headEnd = text.indexOf("\r\n\r\n");
  const [statusLine = "", ...lines] = text.slice(0, headEnd).split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
  if (headEnd === -1 || Number.isNaN(status)) throw new Error(`no response in ${JSON.stringify(text.slice(0, 200))}`);
  const rawHeaders = lines.flatMap((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).trim()];
  });
  return { status, rawHeaders, body: text.slice(headEnd + 4) };
}

/** Every value of a field, whatever the case of its name. */
export function valuesOf(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() === name.toLowerCase()) values.push(rawHeaders[i + 1] ?? "");
  }
  return values;
}
