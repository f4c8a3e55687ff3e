// Listens on a Unix socket that only the user of this process can open. The socket is made in a new folder, gets its mode
// there, and then its name: nobody can connect before it has its mode. The socket of a process that has ended is taken away
// before. A socket on which somebody listens, and a file of another kind, are left alone, also if two processes start at the
// same time.
import { chmod, link, lstat, mkdtemp, rename, rmdir, unlink } from "node:fs/promises";
import { connect, type Server } from "node:net";
import { dirname, join } from "node:path";
import { errorCode, explainError, ignoreError } from "../core/failure.ts";

/** What the systems allow, with room for the folder in which it is made. */
const maxPathBytes = 90;

/** The path cannot be used. `cause`: the system's error, if it was one. */
export class UnixSocketError extends Error {
  readonly path: string;

  constructor(path: string, reason: string, cause?: unknown) {
    super(reason, cause === undefined ? {} : { cause });
    this.path = path;
  }
}

/** Resolves with a function that removes the file, unless another process has replaced it. Rejects with a UnixSocketError. */
export async function listenOnSocket(server: Server, path: string): Promise<() => Promise<void>> {
  if (Buffer.byteLength(path) > maxPathBytes) {
    throw new UnixSocketError(path, `the path has more than ${maxPathBytes} bytes`);
  }
  await assertFree(path);
  try {
    const folder = await mkdtemp(join(dirname(path), ".h"));
    const made = join(folder, "s");
    try {
      await listening(server, made);
      await chmod(made, 0o600);
      const { ino } = await lstat(made);
      await giveName(made, path, join(folder, "old"));
      return () => removeOwn(path, ino);
    } catch (error) {
      await new Promise((resolve) => void server.close(resolve));
      throw error;
    } finally {
      await unlink(made).catch(ignoreError);
      await rmdir(folder).catch(ignoreError);
    }
  } catch (error) {
    throw error instanceof UnixSocketError ? error : new UnixSocketError(path, explainError(error, failures), error);
  }
}

/** Others may begin at the same time. */
const maxTries = 10;

/** Only a link does not replace what is there. `old`: where a file is looked at that was left. */
async function giveName(made: string, path: string, old: string): Promise<void> {
  for (let tries = 0; tries < maxTries; tries += 1) {
    const code = await link(made, path).then(() => null, errorCode);
    if (code === null) return;
    // A file system without links.
    if (code !== "EEXIST") return rename(made, path);
    const left = await assertFree(path);
    if (left !== null) await takeAway(path, left, old);
  }
  throw new UnixSocketError(path, "other processes begin to listen on it");
}

/** Rejects, and puts it back, if it is no longer the file that was left. */
async function takeAway(path: string, ino: number, old: string): Promise<void> {
  try {
    await rename(path, old);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return;
    throw error;
  }
  const isLeft = (await lstat(old)).ino === ino;
  if (!isLeft) await link(old, path);
  await unlink(old);
  if (!isLeft) throw new UnixSocketError(path, inUse);
}

const inUse = "another process listens on it";

/** Rejects if the path is taken. Resolves with the inode of a socket on which nobody listens; null: there is no file. */
async function assertFree(path: string): Promise<number | null> {
  const found = await lstat(path).catch((error) => {
    if (errorCode(error) === "ENOENT") return null;
    throw new UnixSocketError(path, explainError(error, failures), error);
  });
  if (found === null) return null;
  if (!found.isSocket()) throw new UnixSocketError(path, "there is a file of another kind");
  const code = await new Promise<string>((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve("in use");
    });
    socket.once("error", (error) => resolve(errorCode(error) ?? "unknown"));
  });
  // The process that made it has ended, or is removing it now.
  if (code === "ECONNREFUSED" || code === "ENOENT") return found.ino;
  const reason = code === "in use" || code === "EAGAIN" ? inUse : `it cannot be tried (${code})`;
  throw new UnixSocketError(path, reason);
}

function listening(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ path }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

async function removeOwn(path: string, ino: number): Promise<void> {
  const found = await lstat(path).catch(() => null);
  if (found?.ino === ino) await unlink(path).catch(ignoreError);
}

const failures: ReadonlyMap<string, string> = new Map([
  ["ENOENT", "its folder does not exist"],
  ["EACCES", "not permitted"],
  ["EPERM", "not permitted"],
  ["EROFS", "its folder is read-only"],
]);
