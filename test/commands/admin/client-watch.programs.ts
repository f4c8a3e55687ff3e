// `headgate clients --watch` as a person has it: a process in a terminal, with a real gateway.
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { stageCommands } from "./command-stage.ts";
import { openTmux, skipTmux, tmuxNeeded } from "./tmux.ts";

const cleanup = useCleanup();
const main = fileURLToPath(new URL("../../../src/main.ts", import.meta.url));

const yaml = `
auth: { mode: presence }
policies: [{ name: per-client, limit: 10, window: 1h }]
`;

describe.skipIf(skipTmux)(`clients --watch in a terminal${tmuxNeeded}`, () => {
  test("follows what is counted and the size of the window, and Ctrl-C leaves a usable terminal", async () => {
    const { socket, refusedOf } = await stageCommands(cleanup, yaml);
    await refusedOf(3);
    const window = openTmux(cleanup, 80, 24);
    window.keys(`${process.execPath} ${main} clients --watch --socket ${socket}; echo ended with $?`, "Enter");
    await window.shows(/^client:127\.0\.0\.1 .* 3\/10/);
    await refusedOf(4);
    await window.shows(/^client:127\.0\.0\.1 .* 7\/10/);
    expect(window.lines()[0]).toMatch(/^At .* UTC, every 2 s until Ctrl-C:$/);
    expect(window.lines().filter((line) => line.startsWith("KEY"))).toHaveLength(1);
    window.resize(30, 3);
    await window.hides(/7\/10/);
    await window.shows(/^KEY/);
    window.resize(80, 24);
    await window.shows(/^client:127\.0\.0\.1 .* 7\/10/);
    window.keys("C-c");
    await window.shows(/^ended with 0$/);
    expect([window.flag("alternate_on"), window.flag("cursor_flag"), window.flag("wrap_flag")]).toEqual([
      "0",
      "1",
      "1",
    ]);
    window.keys(
      `clear; ${process.execPath} ${main} clients --watch --socket ${socket} | head -1; echo it is over`,
      "Enter",
    );
    await window.shows(/^it is over$/);
    expect(window.lines()).toContain("KEY               POLICY      USED      MORE IN  THROTTLED");
    window.keys("clear; stty -a | tr ' ;' '\\n\\n' | grep -xE -- '-?(icanon|echo|isig)' | sort | tr '\\n' ,", "Enter");
    await window.shows(/^echo,icanon,isig,/);
  });
});
