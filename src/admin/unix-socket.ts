// Listens on a Unix socket that only the user of this process can open. The socket is made in a new folder, gets its mode
// there, and is then renamed to its path: nobody can connect before it has its mode, and the rename replaces the socket of a
// process that has ended. A socket on which somebody listens, and a file of another kind, are left alone.
import { chmod, lstat, mkdtemp, rename, rmdir, unlink } from "node:fs/promises";
import { connect, type Server } from "node:net";
import { dirname, join } from "node:path";
import { errorCode, ignoreError } from "../core/failure.ts";

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
      await rename(made, path);
      return () => removeOwn(path, ino);
    } catch (error) {
      await new Promise((resolve) => void server.close(resolve));
      await unlink(made).catch(ignoreError);
      throw error;
    } finally {
      await rmdir(folder).catch(ignoreError);
    }
  } catch (error) {
    throw new UnixSocketError(path, explain(error), error);
  }
}

/** Rejects if the path is taken. A socket on which nobody listens is not taken. */
async function assertFree(path: string): Promise<void> {
  const found = await lstat(path).catch((error) => {
    if (errorCode(error) === "ENOENT") return null;
    throw new UnixSocketError(path, explain(error), error);
  });
  if (found === null) return;
  if (!found.isSocket()) throw new UnixSocketError(path, "there is a file of another kind");
  const code = await new Promise<string>((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve("in use");
    });
    socket.once("error", (error) => resolve(errorCode(error) ?? "unknown"));
  });
  // The process that made it has ended, or is removing it now.
  if (code === "ECONNREFUSED" || code === "ENOENT") return;
  const reason =
    code === "in use" || code === "EAGAIN" ? "another process listens on it" : `it cannot be tried (${code})`;
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

function explain(error: unknown): string {
  switch (errorCode(error)) {
    case "ENOENT":
      return "its folder does not exist";
    case "EACCES":
    case "EPERM":
      return "not permitted";
    case "EROFS":
      return "its folder is read-only";
    default:
      return errorCode(error) ?? String(error);
  }
}
