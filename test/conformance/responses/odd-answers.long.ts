// What nginx and HAProxy make of the odd answers: the columns of the table, as the real programs fill them.
import { createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { listen } from "../../support/loopback-server.ts";
import { exchange } from "../../support/raw-client.ts";
import { proxies } from "../boundaries/proxies.ts";
import { startBackend } from "../fuzz/backends/backend.ts";
import { oddAnswers, verdictOn } from "./odd-answers.ts";

const { HEADGATE_REQUIRE } = process.env;
const cleanup = useCleanup();

function answer(socket: Socket): void {
  let head = "";
  socket.on("error", () => {});
  socket.on("data", (data) => {
    head += data.toString("latin1");
    const [, row] = / \/(\d+) .*\r\n\r\n$/s.exec(head) ?? [];
    if (row !== undefined) socket.end(oddAnswers[Number(row)]?.[1] ?? "", "latin1");
  });
}

for (const [column, name] of [
  [3, "nginx"],
  [4, "HAProxy"],
] as const) {
  const proxy = proxies.find((each) => each.name === name);
  const skip = proxy?.isInstalled() !== true && HEADGATE_REQUIRE !== "all";
  test.skipIf(skip)(`${name} takes and refuses what the table says (needs ${proxy?.debianPackage})`, async () => {
    const upstream = createServer(answer);
    const plan = proxy?.plan(await listen(cleanup(upstream)));
    if (plan === undefined) throw new Error("there is no such proxy");
    const readLine = () => ({ id: "", port: 0, line: null, fields: [], body: null });
    const started = await startBackend({ ...plan, logsToOutput: true, shownAs: (sent) => sent, readLine });
    cleanup(() => started.remove());
    const found = await Promise.all(
      oddAnswers.map(async ([what, bytes], i) => {
        const got = await exchange(started.port, `GET /${i} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`, {
          quietMs: 4_000,
        });
        return [what, verdictOn(bytes, got)];
      }),
    );
    expect(found).toEqual(oddAnswers.map((row) => [row[0], row[column]]));
  });
}
