// An upstream that records when each request arrived and when its answer left, in a thread of its own: what the clients
// do does not delay the record. `/<version>/<policy>/<number>?hold=<ms>` is answered after that time.
import { createServer, type Socket } from "node:net";
import { parentPort } from "node:worker_threads";

/** The number in the path, the arrival and the departure, in milliseconds of CLOCK_MONOTONIC; three for each request. */
const record: number[] = [];
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;
const target = /^GET \/v\d\/[a-z]+\/(\d+)(?:\?hold=(\d+))? HTTP/;
const response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

const server = createServer((socket) => {
  let received = "";
  socket.setNoDelay(true);
  socket.on("error", () => {});
  socket.on("data", (data) => {
    const arrivedMs = nowMs();
    received += data.toString("latin1");
    for (let end = received.indexOf("\r\n\r\n"); end !== -1; end = received.indexOf("\r\n\r\n")) {
      serve(socket, received.slice(0, end), arrivedMs);
      received = received.slice(end + 4);
    }
  });
});

function serve(socket: Socket, head: string, arrivedMs: number): void {
  const match = target.exec(head);
  if (match === null) return void socket.destroy();
  const holdMs = Number(match[2] ?? 0);
  const at = record.push(Number(match[1]), arrivedMs, holdMs === 0 ? arrivedMs : Number.MAX_VALUE) - 1;
  if (holdMs === 0) return void socket.write(response);
  const leave = (): void => {
    clearTimeout(timer);
    record[at] = nowMs();
    socket.off("close", leave);
    if (socket.writable) socket.write(response);
  };
  const timer = setTimeout(leave, holdMs);
  // A gateway that was killed holds nothing any more.
  socket.once("close", leave);
}

parentPort?.on("message", () => parentPort?.postMessage(Float64Array.from(record)));
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (address !== null && typeof address === "object") parentPort?.postMessage(address.port);
});
