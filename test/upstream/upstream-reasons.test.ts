// Each way in which an upstream fails is counted under its own name: what an operator looks at first.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { request, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();
const ok = "HTTP/1.1 200 OK\r\n";

test.each<[string, string, (socket: Socket) => void]>([
  ["an SSH server", "malformed", (socket) => void socket.write("SSH-2.0-OpenSSH_9.2\r\n")],
  ["a field without a name", "malformed", (socket) => void socket.write(`${ok}: x\r\n\r\n`)],
  ["a status of 99", "malformed", (socket) => void socket.write("HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n")],
  ["a length that is none", "malformed", (socket) => void socket.write(`${ok}Content-Length: abc\r\n\r\n`)],
  ["two lengths", "malformed", (socket) => void socket.write(`${ok}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`)],
  [
    "a chunk size that is none",
    "malformed",
    (socket) => void socket.write(`${ok}Transfer-Encoding: chunked\r\n\r\nzz\r\n`),
  ],
  ["a head without end", "head_too_large", (socket) => void socket.write(`${ok}X: ${"y".repeat(70_000)}`)],
  ["an end before the answer", "closed_early", (socket) => void socket.end()],
  ["an end inside the answer", "closed_early", (socket) => void socket.end(`${ok}Content-Length: 9\r\n\r\nhalf`)],
  ["a reset", "reset", (socket) => void socket.resetAndDestroy()],
  ["silence", "response_timeout", () => {}],
])("%s is %s", async (_, reason, answer) => {
  const overrides = { upstream: { responseTimeoutMs: 300 } };
  const { connect, gateway } = await stageRaw(cleanup, (socket) => answer(socket), overrides);
  const client = connect().write(request("/v2/x", { fields: "Connection: close\r\n" }));
  await client.closed;
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const counted = [...metrics.matchAll(/^headgate_upstream_errors_total\{reason="(\w+)"\} [1-9]\d*$/gm)];
  expect(counted.map((match) => match[1])).toEqual([reason]);
});
