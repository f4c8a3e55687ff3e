// The figures of a child process that was started with bench/hostile/turn-watch.ts and an IPC channel.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { TurnFigures } from "../../bench/hostile/turn-watch.ts";
import { within } from "./eventually.ts";

export const turnWatch = fileURLToPath(new URL("../../bench/hostile/turn-watch.ts", import.meta.url));

/** The longest turn since the last call, and what the process has used so far. */
export async function readTurns(
  child: Pick<ChildProcess, "send" | "once"> & NodeJS.EventEmitter,
): Promise<TurnFigures> {
  const answer = once(child, "message");
  child.send({ read: true });
  const [figures] = await within("the figures of the turns", answer, 20_000);
  return figures;
}
