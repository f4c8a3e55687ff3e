// A terminal of a test's own: a server of tmux with one window, in which a shell runs. What the window shows can be read.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import type { Cleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import { scratchFolder } from "../../support/scratch.ts";

const isInstalled = spawnSync("tmux", ["-V"]).status === 0;

/** For `describe.skipIf`. HEADGATE_REQUIRE=all turns what is missing into a failure. */
export const skipTmux = !isInstalled && process.env["HEADGATE_REQUIRE"] !== "all";
/** At the end of a name: says what a skipped test needs. */
export const tmuxNeeded = skipTmux ? " (needs tmux)" : "";

/** A busy machine starts a process slowly. */
const deadlineMs = 20_000;

export interface TmuxWindow {
  /** Keys as `tmux send-keys` names them; what is none is text. */
  keys(...keys: readonly string[]): void;
  lines(): string[];
  /** What tmux knows of the terminal, such as `alternate_on`. */
  flag(name: string): string;
  resize(columns: number, rows: number): void;
  /** Takes the terminal away from its programs. */
  close(): void;
  /** Waits until a line of the window matches. */
  shows(pattern: RegExp): Promise<void>;
  /** Waits until no line of the window matches. */
  hides(pattern: RegExp): Promise<void>;
}

export function openTmux(cleanup: Cleanup, columns: number, rows: number): TmuxWindow {
  const socket = join(scratchFolder(cleanup), "tmux");
  const tmux = (...args: readonly string[]): string => {
    const { status, stdout, stderr } = spawnSync("tmux", ["-S", socket, "-f", "/dev/null", ...args], {
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`tmux ${args[0]}: ${stderr}`);
    return stdout;
  };
  const shell = "exec env -i PATH=/usr/bin:/bin TERM=$TERM PS1='$ ' bash --norc --noprofile";
  tmux("new-session", "-d", "-x", `${columns}`, "-y", `${rows}`, shell);
  let isOpen = true;
  const close = (): void => {
    if (isOpen) tmux("kill-server");
    isOpen = false;
  };
  cleanup(close);
  const lines = (): string[] => tmux("capture-pane", "-p").trimEnd().split("\n");
  const wait = async (what: string, condition: () => boolean): Promise<void> => {
    await eventually(what, condition, deadlineMs).catch((error: Error) => {
      throw new Error(`${error.message}:\n${lines().join("\n")}`);
    });
  };
  return {
    ...{ lines, close, flag: (name) => tmux("display-message", "-p", `#{${name}}`).trim() },
    keys: (...keys) => void tmux("send-keys", ...keys),
    resize: (width, height) => void tmux("resize-window", "-x", `${width}`, "-y", `${height}`),
    shows: (pattern) => wait(`${pattern} is shown`, () => lines().some((line) => pattern.test(line))),
    hides: (pattern) => wait(`${pattern} is not shown`, () => !lines().some((line) => pattern.test(line))),
  };
}
