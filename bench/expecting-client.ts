// A client that waits for the 100 of each request before it sends the body, which wrk cannot: a process of its own on the
// load's core. Arguments: port, path, connections, seconds, bytes of a body. Prints a LoadResult.
import { connect, type Socket } from "node:net";
import { bodyFields, type LoadResult } from "./load.ts";

const [port = 0, , connections = 0, seconds = 0, bodyBytes = 0] = process.argv.slice(2).map(Number);
const path = process.argv[3] ?? "/";
const fields = Object.entries({ Host: `127.0.0.1:${port}`, ...bodyFields, Expect: "100-continue" });
const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
const head = `POST ${path} HTTP/1.1\r\n${lines}Content-Length: ${bodyBytes}\r\n\r\n`;
const body = "x".repeat(bodyBytes);

const latenciesUs: number[] = [];
let errors = 0;
let refused = 0;

function open(endMs: number): Socket {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  let received = "";
  let beganMs = 0;
  let hasContinue = false;
  const ask = (): void => {
    beganMs = performance.now();
    hasContinue = false;
    socket.write(head, "latin1");
  };
  socket.on("connect", ask).on("error", () => {
    errors += 1;
  });
  socket.setEncoding("latin1").on("data", (text: string) => {
    received += text;
    for (let read = headOf(received); read !== null; read = headOf(received)) {
      if (read.status === 100) {
        received = received.slice(read.bytes);
        hasContinue = true;
        socket.write(body, "latin1");
        continue;
      }
      if (received.length < read.bytes + read.bodyBytes) return;
      received = received.slice(read.bytes + read.bodyBytes);
      if (!hasContinue) errors += 1;
      if (read.status >= 400) refused += 1;
      latenciesUs.push((performance.now() - beganMs) * 1000);
      if (performance.now() < endMs) ask();
      else socket.destroy();
    }
  });
  return socket;
}

function headOf(text: string): { status: number; bytes: number; bodyBytes: number } | null {
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return null;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, end))?.[1];
  return { status: Number(text.slice(9, 12)), bytes: end + 4, bodyBytes: Number(length ?? 0) };
}

const beganMs = performance.now();
const endMs = beganMs + seconds * 1000;
const sockets = Array.from({ length: connections }, () => open(endMs));
// What has not been answered by then is an error.
const late = setTimeout(
  () => {
    for (const socket of sockets.filter(({ destroyed }) => !destroyed)) {
      errors += 1;
      socket.destroy();
    }
  },
  seconds * 1000 + 2_000,
);
await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once("close", resolve))));
clearTimeout(late);
latenciesUs.sort((a, b) => a - b);
const at = (share: number): number => latenciesUs[Math.floor(latenciesUs.length * share)] ?? Number.NaN;
const result: LoadResult = {
  requests: latenciesUs.length,
  seconds: (performance.now() - beganMs) / 1000,
  p50Us: at(0.5),
  p99Us: at(0.99),
  p999Us: at(0.999),
  errors,
  refused,
};
process.stdout.write(JSON.stringify(result));
