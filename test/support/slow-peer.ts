// Peers that move bytes at a rate of their own: a socket that reads so many a second and no more, and one that writes
// as fast as it is read.
import type { Socket } from "node:net";

const intervalMs = 10;
const piece = Buffer.alloc(64 * 1024, "b");

/** Calls back with what was read. What is not read stays with the sender. */
export function readSlowly(socket: Socket, bytesPerSecond: number, onData: (data: Buffer) => void): void {
  const perInterval = (bytesPerSecond * intervalMs) / 1000;
  let allowed = perInterval;
  const timer = setInterval(() => {
    // Not more than a few intervals are made up for: a machine that is busy makes it slower, never faster.
    allowed = Math.min(allowed + perInterval, 5 * perInterval);
    if (allowed > 0) socket.resume();
  }, intervalMs);
  socket.on("data", (data: Buffer) => {
    allowed -= data.length;
    if (allowed <= 0) socket.pause();
    onData(data);
  });
  socket.on("close", () => clearInterval(timer));
  socket.on("error", ignoreBreak);
}

/** Writes that many bytes, each as soon as the socket takes it. */
export function pour(socket: Socket, bytes: number): void {
  let left = bytes;
  const write = (): void => {
    while (left > 0 && socket.writable) {
      const next = left < piece.length ? piece.subarray(0, left) : piece;
      left -= next.length;
      if (!socket.write(next)) {
        socket.once("drain", write);
        return;
      }
    }
  };
  write();
}

function ignoreBreak(): void {}
