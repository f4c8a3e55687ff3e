// The Unix socket of the admin side: who can open it, what it replaces, and what it leaves.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, lstatSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { listenOnSocket, UnixSocketError } from "../../src/admin/unix-socket.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";

const cleanup = useCleanup();

function server(answer: string): Server {
  const made = createServer((socket) => void socket.on("error", () => {}).end(answer));
  cleanup(() => new Promise((resolve) => void made.close(resolve)));
  return made;
}

async function ask(path: string): Promise<string> {
  const socket = connect(path);
  let text = "";
  for await (const chunk of socket) text += chunk;
  return text;
}

/** Leaves what a process that has ended leaves. */
async function leave(path: string): Promise<void> {
  const script = `require("node:net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`;
  await once(spawn(process.execPath, ["-e", script]), "exit");
  expect(existsSync(path)).toBe(true);
}

test("it can be opened by its user alone, and nothing else is left in its folder", async () => {
  const folder = scratchFolder(cleanup);
  const path = join(folder, "admin.sock");
  const remove = await listenOnSocket(server("a"), path);
  expect(lstatSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder)).toEqual(["admin.sock"]);
  expect(await ask(path)).toBe("a");
  await remove();
  expect(readdirSync(folder)).toEqual([]);
});

test("what a process that has ended has left is replaced", async () => {
  const path = join(scratchFolder(cleanup), "admin.sock");
  await leave(path);
  await listenOnSocket(server("a"), path);
  expect(await ask(path)).toBe("a");
});

test("one on which somebody listens stays as it is, and so does its mode", async () => {
  const folder = scratchFolder(cleanup);
  const path = join(folder, "admin.sock");
  await listenOnSocket(server("first"), path);
  const second = listenOnSocket(server("second"), path);
  await expect(second).rejects.toEqual(new UnixSocketError(path, "another process listens on it"));
  expect(await ask(path)).toBe("first");
  expect(readdirSync(folder)).toEqual(["admin.sock"]);
});

test.each([false, true])(
  "of two that begin at the same time, one listens on it (a file was left: %s)",
  async (isLeft) => {
    const folder = scratchFolder(cleanup);
    const path = join(folder, "admin.sock");
    if (isLeft) await leave(path);
    const names = ["a", "b"];
    const results = await Promise.allSettled(names.map((name) => listenOnSocket(server(name), path)));
    const listening = names.filter((_, i) => results[i]?.status === "fulfilled");
    expect(listening).toHaveLength(1);
    for (const result of results) {
      if (result.status === "rejected") expect(result.reason).toBeInstanceOf(UnixSocketError);
    }
    expect(await ask(path)).toBe(listening[0]);
    expect([readdirSync(folder), lstatSync(path).mode & 0o777]).toEqual([["admin.sock"], 0o600]);
  },
);

test("files of other kinds, and links, are left alone", async () => {
  const folder = scratchFolder(cleanup);
  writeFileSync(join(folder, "file"), "x");
  symlinkSync(join(folder, "file"), join(folder, "link"));
  for (const name of ["file", "link", "."]) {
    await expect(listenOnSocket(server("a"), join(folder, name))).rejects.toThrow("there is a file of another kind");
  }
  expect(readdirSync(folder).sort()).toEqual(["file", "link"]);
});

test.each([
  ["missing/admin.sock", "its folder does not exist"],
  [`${"x".repeat(90)}.sock`, "the path has more than 90 bytes"],
])("%s: %s", async (name, reason) => {
  await expect(listenOnSocket(server("a"), join(scratchFolder(cleanup), name))).rejects.toThrow(reason);
});

test("the file of another process is not removed at the end", async () => {
  const path = join(scratchFolder(cleanup), "admin.sock");
  const first = createServer();
  const remove = await listenOnSocket(first, path);
  await new Promise((resolve) => void first.close(resolve));
  await listenOnSocket(server("second"), path);
  await remove();
  expect(await ask(path)).toBe("second");
});
