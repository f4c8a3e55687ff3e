// `headgate top` as a person has it: a process in a terminal, with a real gateway. Keys do what they should, and whatever ends it,
// the terminal is as it was.
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../../../support/cleanup.ts";
import { eventually } from "../../../support/eventually.ts";
import { type CommandStage, stageCommands } from "../command-stage.ts";
import { openTmux, skipTmux, type TmuxWindow, tmuxNeeded } from "./tmux.ts";

const cleanup = useCleanup();
const main = fileURLToPath(new URL("../../../../src/main.ts", import.meta.url));

const yaml = `
auth: { mode: presence }
clientAddress: { trustedProxies: [127.0.0.1] }
policies: [{ name: per-client, limit: 10, window: 1h }]
`;

/** `used`: requests by address. */
async function stage(used: Readonly<Record<string, number>>) {
  const gateway = await stageCommands(cleanup, yaml);
  for (const [address, count] of Object.entries(used)) await ask(gateway, address, count);
  return gateway;
}

async function ask({ gateway }: CommandStage, address: string, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const headers = { authorization: "Bearer x", "x-forwarded-for": address };
    await (await fetch(`${gateway.url}/v2/x`, { headers })).text();
  }
}

/** The window shows the table; `pid`: of the process. */
async function startTop(stageOf: CommandStage, columns: number, rows: number, words = ""): Promise<TmuxWindow> {
  const window = openTmux(cleanup, columns, rows);
  window.keys("clear; echo before", "Enter");
  await window.shows(/^before$/);
  window.keys(`${process.execPath} ${main} top --socket ${stageOf.socket} ${words}; echo ended with $?`, "Enter");
  await window.shows(/^KEY/);
  return window;
}

/** Of the process in the window, which is the only child of the shell. */
function pidOf(window: TmuxWindow): number {
  const shell = window.flag("pane_pid");
  return Number(readFileSync(`/proc/${shell}/task/${shell}/children`, "utf8").trim().split(" ")[0]);
}

const keysOf = (window: TmuxWindow): string[] => {
  return window.lines().flatMap((line) => /^client:([\d.]+)/.exec(line)?.[1] ?? []);
};

async function expectAsBefore(window: TmuxWindow): Promise<void> {
  await window.shows(/^ended with \d+$/);
  expect(window.lines()[0]).toBe("before");
  expect(window.lines().filter((line) => line.startsWith("KEY"))).toEqual([]);
  expect([window.flag("alternate_on"), window.flag("cursor_flag"), window.flag("mouse_any_flag")]).toEqual([
    ...["0", "1", "0"],
  ]);
  // The terminal echoes, reads by lines, and Ctrl-C is a signal.
  window.keys(
    "clear; stty -a | tr ' ;' '\\n\\n' | grep -xE -- '-?(icanon|echo|isig|icrnl|opost)' | sort | tr '\\n' ,",
    "Enter",
  );
  await window.shows(/^echo,icanon,icrnl,isig,opost,/);
}

describe.skipIf(skipTmux)(`top in a terminal${tmuxNeeded}`, { timeout: 60_000 }, () => {
  test("80 × 24: sorts, filters, follows, helps, shows one client, and quits", async () => {
    const gateway = await stage({ "10.0.0.1": 7, "10.0.0.2": 5, "10.9.0.3": 12 });
    const window = await startTop(gateway, 80, 24);
    expect(keysOf(window)).toEqual(["10.9.0.3", "10.0.0.1", "10.0.0.2"]);
    expect(window.lines()).toHaveLength(24);
    window.keys("n");
    await window.shows(/by recent/);
    await ask(gateway, "10.0.0.2", 1);
    await window.shows(/^client:10\.0\.0\.2 .* 6\/10/);
    // The gateway reads when a key was used last before it reads how much.
    await eventually("it is the first", () => keysOf(window)[0] === "10.0.0.2");
    window.keys("r");
    await window.shows(/by refused/);
    await window.hides(/^client:10\.0\.0\.1/);
    await window.shows(/^client:10\.9\.0\.3 .* 2$/);
    expect(keysOf(window)).toEqual(["10.9.0.3"]);
    window.keys("u");
    await window.shows(/^client:10\.0\.0\.2 /);
    window.keys("/");
    window.keys("10.0.", "Enter");
    await window.hides(/^client:10\.9\.0\.3/);
    expect(keysOf(window)).toEqual(["10.0.0.1", "10.0.0.2"]);
    window.keys("Down", "f");
    await window.shows(/following/);
    await ask(gateway, "10.0.0.2", 3);
    await window.shows(/^client:10\.0\.0\.2 .* 9\/10/);
    expect(keysOf(window)).toEqual(["10.0.0.2", "10.0.0.1"]);
    // It has moved to the first row, and is still the one that is opened.
    window.keys("Enter");
    await window.shows(/^client:10\.0\.0\.2$/);
    await window.shows(/^No rule is about it/);
    window.keys("Escape");
    await window.shows(/^KEY/);
    window.keys("?");
    await window.shows(/After kill -9/);
    window.keys("x");
    await window.shows(/^KEY/);
    window.keys("q");
    await window.shows(/^ended with 0$/);
    await expectAsBefore(window);
  });

  test("200 × 60, and a window that changes its size", async () => {
    const gateway = await stage({ "10.0.0.1": 10 });
    const window = await startTop(gateway, 200, 60);
    await window.shows(/ \[\|{30,}\] /);
    expect(window.lines()).toHaveLength(60);
    window.resize(80, 24);
    await window.hides(/ \[\|{30,}\] /);
    await window.shows(/^KEY/);
    expect(window.lines()).toHaveLength(24);
    window.resize(200, 60);
    await window.shows(/ \[\|{30,}\] /);
    window.keys("C-c");
    await window.shows(/^ended with 0$/);
    await expectAsBefore(window);
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)("%s ends it with %i, and the terminal is as it was", async (signal, code) => {
    const window = await startTop(await stage({ "10.0.0.1": 1 }), 80, 24);
    process.kill(pidOf(window), signal);
    await window.shows(new RegExp(`^ended with ${code}$`));
    await expectAsBefore(window);
  });

  test("Ctrl-Z gives the shell its terminal, and fg goes on", async () => {
    const window = await startTop(await stage({ "10.0.0.1": 1 }), 80, 24, "&& true");
    window.keys("C-z");
    await window.shows(/Stopped/);
    expect([window.flag("alternate_on"), window.flag("cursor_flag"), window.lines()[0]]).toEqual(["0", "1", "before"]);
    window.keys("clear; echo before; fg", "Enter");
    await window.shows(/^KEY/);
    window.keys("p");
    await window.shows(/PAUSED/);
    window.keys("q");
    await window.hides(/^KEY/);
    expect(window.flag("alternate_on")).toBe("0");
  });

  test("it ends with its terminal", async () => {
    const window = await startTop(await stage({ "10.0.0.1": 1 }), 80, 24);
    const pid = pidOf(window);
    window.close();
    await eventually("it has ended", () => !existsSync(`/proc/${pid}`));
  });

  test("a window that has grown is as it was before", async () => {
    const used = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`10.0.0.${i + 1}`, 1]));
    const window = await startTop(await stage(used), 80, 24);
    window.resize(200, 60);
    await window.shows(/ \[\|+ {30,}\] /);
    await eventually("all clients are shown", () => keysOf(window).length === 50);
    window.keys("q");
    await expectAsBefore(window);
  });

  test("after a stop that it could not notice, it goes on where it was", async () => {
    const window = await startTop(await stage({ "10.0.0.1": 1 }), 80, 24, "&& true");
    process.kill(pidOf(window), "SIGSTOP");
    await window.shows(/Stopped/);
    // The shell has changed the mode of the terminal, and its text is among that of the table.
    window.keys("stty sane; fg", "Enter");
    await window.hides(/Stopped/);
    window.keys("p");
    await window.shows(/PAUSED/);
    expect(window.lines().filter((line) => line.startsWith("headgate"))).toHaveLength(1);
    window.keys("q");
    await window.hides(/^KEY/);
  });

  test("an error that nobody expects leaves the terminal as it was, and is printed there", async () => {
    const gateway = await stage({ "10.0.0.1": 1 });
    const window = openTmux(cleanup, 80, 24);
    const fault = "data:text/javascript,process.on('SIGUSR2',()=>{throw(Error('a-bug'))})";
    window.keys("clear; echo before", "Enter");
    await window.shows(/^before$/);
    window.keys(
      `${process.execPath} --import "${fault}" ${main} top --socket ${gateway.socket}; echo ended with $?`,
      "Enter",
    );
    await window.shows(/^KEY/);
    process.kill(pidOf(window), "SIGUSR2");
    await window.shows(/a-bug/);
    await expectAsBefore(window);
  });
});
