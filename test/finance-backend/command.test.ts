import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { run } from "../../src/commands/finance-backend.ts";
import type { CommandIo, TerminationSignal } from "../../src/commands/io.ts";
import { scratchFolder } from "../support/scratch.ts";
import { asPage, authorization, startInMemory } from "./support.ts";

const folder = scratchFolder(afterAll);

/** The command's side of the process, and what came out of it. */
function recordingIo() {
  const handlers: ((signal: TerminationSignal) => void)[] = [];
  const written = { out: "", err: "" };
  const firstOutput = Promise.withResolvers<string>();
  const io: CommandIo = {
    env: {},
    cwd: folder,
    maxOpenFiles: () => null,
    residentBytes: () => 0,
    readInput: async () => Buffer.alloc(0),
    out: (text) => {
      written.out += text;
      firstOutput.resolve(text);
    },
    err: (text) => {
      written.err += text;
    },
    onSignal: (handler) => void handlers.push(handler),
    isOutputRead: () => true,
    terminalSize: () => null,
  };
  const signal = (): void => {
    for (const handler of handlers) handler("SIGTERM");
  };
  return { io, written, firstOutput: firstOutput.promise, signal };
}

test("says where it listens in one JSON line, serves, keeps its data in the file, and ends with 0 on a signal", async () => {
  const { io, written, firstOutput, signal } = recordingIo();
  const ended = run({ host: "127.0.0.1", port: 0, database: "data.sqlite" }, io);
  const { port } = JSON.parse(await firstOutput);
  expect(written).toEqual({ out: `{"listener":"finance-backend","host":"127.0.0.1","port":${port}}\n`, err: "" });
  const response = await fetch(`http://127.0.0.1:${port}/v2/transactions?limit=5`, { headers: authorization });
  expect(asPage(await response.json()).transactions).toHaveLength(5);
  signal();
  expect(await ended).toBe(0);
  expect(existsSync(join(folder, "data.sqlite"))).toBe(true);
  await expect(fetch(`http://127.0.0.1:${port}/v2/me`)).rejects.toThrow("fetch failed");
});

test("a port in use is one clear line and a non-zero exit code", async () => {
  const other = await startInMemory();
  const { io, written } = recordingIo();
  expect(await run({ host: "127.0.0.1", port: other.port, database: null }, io)).toBe(69);
  const line = `headgate finance-backend: cannot listen on 127.0.0.1:${other.port}: the port is in use\n`;
  expect(written).toEqual({ out: "", err: line });
  await other.close();
});

test("a file that is no database of ours is one clear line and a non-zero exit code", async () => {
  writeFileSync(join(folder, "notes.txt"), "not a database, but long enough to be asked about\n".repeat(20));
  const { io, written } = recordingIo();
  expect(await run({ host: "127.0.0.1", port: 0, database: "notes.txt" }, io)).toBe(69);
  const reason = `cannot use the database ${join(folder, "notes.txt")}: file is not a database`;
  expect(written).toEqual({ out: "", err: `headgate finance-backend: ${reason}\n` });
});
