// `headgate top` with a gateway and a terminal that a test makes up: when it asks, what it draws, and how it ends.
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { run } from "../../../../src/commands/admin/run.ts";
import { parseArguments } from "../../../../src/commands/arguments.ts";
import type { Terminal, TerminalHandlers } from "../../../../src/commands/io.ts";
import { status } from "../../../admin/fake-plane.ts";
import { useCleanup } from "../../../support/cleanup.ts";
import { eventually, turns } from "../../../support/eventually.ts";
import { testIo } from "../../test-io.ts";
import { type MadeUp, startMadeUp } from "../command-stage.ts";
import { row } from "./answers-of.ts";

const cleanup = useCleanup();
const enter = "\x1b[?1049h\x1b[?25l";
const leave = "\x1b[?25h\x1b[?1049l";

/** What was done to it, in order: texts that were written, modes, stops. */
class FakeTerminal implements Terminal {
  readonly log: string[] = [];
  handlers: TerminalHandlers | null = null;
  columns = 80;
  rows = 24;
  goOn: () => void = () => {};

  size() {
    return { columns: this.columns, rows: this.rows };
  }

  write(text: string): void {
    this.log.push(text);
  }

  setRaw(isRaw: boolean): void {
    this.log.push(isRaw ? "<raw>" : "<cooked>");
  }

  read(handlers: TerminalHandlers) {
    this.handlers = handlers;
    return () => {
      this.handlers = null;
    };
  }

  stop(who: "group" | "process"): Promise<void> {
    this.log.push(`<stopped ${who}>`);
    return new Promise((resolve) => {
      this.goOn = resolve;
    });
  }

  send(keys: string): void {
    this.handlers?.onInput(new TextEncoder().encode(keys));
  }

  get text(): string {
    return this.log.join("");
  }
}

const history = { stepSeconds: 5, end: null, steps: [] };
let rows = [row("203.0.113.7", 9), row("203.0.113.8", 4)];
beforeEach(() => {
  rows = [row("203.0.113.7", 9), row("203.0.113.8", 4)];
});

const healthy: MadeUp = (_method, path) => {
  if (path === "/api/status") return [200, { ...status, caller: { name: "ops", role: "write" } }];
  if (path === "/api/history") return [200, history];
  if (path.startsWith("/api/clients?"))
    return [200, { clients: rows, refusedSince: null, isComplete: true, isShared: false }];
  if (path === "/api/clients/client%3A203.0.113.7")
    return [200, { key: "client:203.0.113.7", policies: [], rules: [], isShared: false }];
  return [404, { message: "Not Found", errors: [{ errMsg: "Nothing is counted." }] }];
};

async function start(
  words: string,
  { answer = healthy, env = {} }: { answer?: MadeUp; env?: Record<string, string> } = {},
) {
  const gateway = await startMadeUp(cleanup, answer);
  const terminal = new FakeTerminal();
  const io = testIo({ env, terminal });
  const parsed = parseArguments(["top", ...words.split(" ").filter((word) => word !== ""), ...gateway.options]);
  if (!parsed.ok || parsed.invocation.command !== "admin") throw new Error("no invocation");
  const ended = run(parsed.invocation.args, io, status.version);
  const quit = async (): Promise<number> => {
    terminal.send("q");
    return ended;
  };
  const isDrawn = (text: string) => eventually(`${text} is drawn`, () => terminal.text.includes(text));
  return { gateway, terminal, io, ended, quit, isDrawn };
}

describe("without a terminal, or once", () => {
  test("--once prints the table and ends", async () => {
    const { ended, io, terminal } = await start("--once");
    expect(await ended).toBe(0);
    expect(terminal.log).toEqual([]);
    expect(io.outText()).toMatch(
      /^headgate 1\.2\.3 {2}ready for 13 s .*\n(.*\n){4}KEY .*\nclient:203\.0\.113\.7 .*\n.*\n$/,
    );
    expect(io.outText()).not.toContain("\x1b");
  });

  test("--json prints the list as the API answers it", async () => {
    const { ended, io, gateway } = await start("--json --sort refused --policy p --search 203");
    expect(await ended).toBe(0);
    expect(JSON.parse(io.outText())).toEqual({ clients: rows, refusedSince: null, isComplete: true, isShared: false });
    expect(gateway.received.at(-1)).toBe("GET /api/clients?sort=refused&limit=50&policy=p&search=203");
  });

  test("what the gateway refuses at first is an error, and nothing is drawn", async () => {
    const refusal = { message: "Bad Request", errors: [{ errMsg: "query.policy: no such policy" }] };
    const { ended, io, terminal } = await start("--policy x", {
      answer: (method, path, body, request) =>
        path.includes("policy=x") ? [400, refusal] : healthy(method, path, body, request),
    });
    expect(await ended).toBe(1);
    expect(io.errText()).toBe("headgate: query.policy: no such policy\n");
    expect(terminal.log).toEqual([]);
  });
});

describe("on a terminal", () => {
  test("draws, and leaves the terminal as it was", async () => {
    const { quit, terminal, isDrawn } = await start("");
    await isDrawn("client:203.0.113.7");
    expect(terminal.log.slice(0, 2)).toEqual(["<raw>", enter]);
    expect(await quit()).toBe(0);
    expect(terminal.log.slice(-2)).toEqual([expect.stringContaining(leave), "<cooked>"]);
    expect(terminal.handlers).toBeNull();
  });

  test("writes only the lines that have changed", async () => {
    const { quit, terminal, isDrawn } = await start("--interval 1h");
    await isDrawn("client:203.0.113.7");
    const before = terminal.log.length;
    terminal.send("\x1b[B");
    await eventually("the selection has moved", () => terminal.log.length > before);
    const drawn = terminal.log.slice(before).join("");
    expect(drawn).toContain("client:203.0.113.7");
    expect(drawn).not.toContain("requests/s");
    await quit();
  });

  test("asks again and again, and for the history only when it can be another one", async () => {
    const { quit, gateway } = await start("--interval 500ms");
    const lists = () => gateway.received.filter((call) => call.includes("/api/clients?"));
    await eventually("it was asked three times", () => lists().length >= 3);
    expect(gateway.received.filter((call) => call === "GET /api/history")).toHaveLength(1);
    await quit();
  });

  test("a key that changes what is asked for is one more call, however often it is pressed meanwhile", async () => {
    const { quit, terminal, isDrawn, gateway } = await start("--interval 1h");
    await isDrawn("client:203.0.113.7");
    const before = gateway.received.length;
    terminal.send("rnrnr");
    await isDrawn("by refused");
    const asked = () => gateway.received.slice(before).filter((call) => call.includes("/api/clients?"));
    await eventually("the last order is asked for", () => asked().at(-1)?.includes("sort=refused") === true);
    await eventually("it is answered", () => asked().length === 2);
    await quit();
    expect(asked()).toHaveLength(2);
  });

  test("the filter and one client are asked for", async () => {
    const { quit, terminal, isDrawn, gateway } = await start("--interval 1h");
    await isDrawn("client:203.0.113.7");
    terminal.send("/203.\r");
    await isDrawn('filter "203."');
    await eventually("it is asked for", () => gateway.received.some((call) => call.includes("search=203.")));
    terminal.send("\r");
    await isDrawn("No rule is about it.");
    terminal.send("\x1b");
    await isDrawn("u r n sort");
    await quit();
  });

  test("a client that the gateway does not know is said to be unknown, and the gateway is not away", async () => {
    rows = [row("203.0.113.99", 9)];
    const { quit, terminal, isDrawn } = await start("--interval 1h");
    await isDrawn("client:203.0.113.99");
    terminal.send("\r");
    await isDrawn("Nothing is counted.");
    expect(terminal.text).not.toContain("tried again");
    terminal.send("q");
    await quit();
  });

  test("while it is paused, the gateway is not asked", async () => {
    // Only those of the command: node:http has others.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    cleanup(() => vi.useRealTimers());
    const { quit, terminal, isDrawn, gateway } = await start("");
    await isDrawn("client:203.0.113.7");
    const lists = () => gateway.received.filter((call) => call.includes("/api/clients?")).length;
    vi.advanceTimersByTime(1_000);
    await eventually("it is asked again", () => lists() === 2);
    await eventually("it waits for the next time", () => vi.getTimerCount() === 1);
    terminal.send("p");
    await isDrawn("PAUSED");
    vi.advanceTimersByTime(60_000);
    await turns(20);
    expect(lists()).toBe(2);
    rows = [row("198.51.100.1", 1)];
    terminal.send("p");
    await isDrawn("client:198.51.100.1");
    await quit();
  });

  test("a gateway that goes away is said so, and is asked until it is back", async () => {
    const { quit, gateway, isDrawn } = await start("--interval 500ms");
    await isDrawn("client:203.0.113.7");
    const { port } = gateway.server.address() as AddressInfo;
    await closed(gateway.server);
    await isDrawn("tried again and again: the gateway at");
    rows = [row("198.51.100.1", 1)];
    await new Promise<void>((resolve) => void gateway.server.listen(port, "127.0.0.1", resolve));
    await isDrawn("client:198.51.100.1");
    await quit();
  });

  test("a new size is drawn whole", async () => {
    const { quit, terminal, isDrawn } = await start("--interval 1h");
    await isDrawn("client:203.0.113.7");
    [terminal.columns, terminal.rows] = [200, 60];
    const before = terminal.log.length;
    terminal.handlers?.onResize();
    await eventually("it is drawn", () => terminal.log.slice(before).join("").includes("\x1b[60;1H"));
    expect(terminal.log.slice(before).join("")).toContain("requests/s");
    await quit();
  });

  test.each([
    ["Ctrl-Z", "group"],
    ["SIGTSTP", "process"],
  ])("%s stops it with the terminal as it was, and it goes on", async (what, who) => {
    const { quit, terminal, isDrawn } = await start("--interval 1h");
    await isDrawn("client:203.0.113.7");
    const before = terminal.log.length;
    if (what === "Ctrl-Z") terminal.send("\x1a");
    else terminal.handlers?.onStop();
    await eventually("it has stopped", () => terminal.log.at(-1) === `<stopped ${who}>`);
    expect(terminal.log.slice(before)).toEqual([expect.stringContaining(leave), "<cooked>", `<stopped ${who}>`]);
    terminal.goOn();
    await eventually("it is drawn again", () =>
      terminal.log
        .slice(before + 3)
        .join("")
        .includes("client:203.0.113.7"),
    );
    expect(terminal.log.slice(before + 3, before + 5)).toEqual(["<raw>", enter]);
    await quit();
  });

  test("after a stop that nobody announced, the mode is set again and all is drawn", async () => {
    const { quit, terminal, isDrawn } = await start("--interval 1h");
    await isDrawn("client:203.0.113.7");
    const before = terminal.log.length;
    terminal.handlers?.onContinue();
    await eventually("it is drawn again", () => terminal.log.slice(before).join("").includes("requests/s"));
    expect(terminal.log[before]).toBe("<raw>");
    await quit();
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)("%s ends it with %i, and the terminal is as it was", async (signal, code) => {
    const { terminal, io, ended, isDrawn } = await start("--interval 1h");
    await isDrawn("client:203.0.113.7");
    io.signal(signal);
    expect(await ended).toBe(code);
    expect(terminal.log.slice(-2)).toEqual([expect.stringContaining(leave), "<cooked>"]);
  });

  test("a terminal that is gone ends it", async () => {
    const { terminal, ended, isDrawn } = await start("--interval 1h");
    await isDrawn("client:203.0.113.7");
    terminal.handlers?.onEnd();
    expect(await ended).toBe(129);
  });

  test("an error leaves the terminal as it was, and is an error", async () => {
    const { terminal, ended, isDrawn } = await start("--interval 1h");
    await isDrawn("client:203.0.113.7");
    terminal.size = () => {
      throw new RangeError("a bug");
    };
    terminal.handlers?.onResize();
    await expect(ended).rejects.toThrow("a bug");
    expect(terminal.log.slice(-2)).toEqual([expect.stringContaining(leave), "<cooked>"]);
  });

  test("an end of the process leaves the terminal as it was, and the loop does not do so again", async () => {
    const { terminal, ended, isDrawn, quit } = await start("--interval 1h");
    await isDrawn("client:203.0.113.7");
    terminal.handlers?.onExit();
    expect(terminal.log.slice(-2)).toEqual([expect.stringContaining(leave), "<cooked>"]);
    const { length } = terminal.log;
    await quit();
    await ended;
    expect(terminal.log).toHaveLength(length);
  });

  test("colors are drawn, and not with NO_COLOR", async () => {
    const colored = await start("--interval 1h");
    await colored.isDrawn("client:203.0.113.7");
    await colored.quit();
    expect(colored.terminal.log.join("")).toContain("\x1b[32m");
    const plain = await start("--interval 1h", { env: { NO_COLOR: "1" } });
    await plain.isDrawn("client:203.0.113.7");
    await plain.quit();
    expect(["\x1b[31m", "\x1b[32m", "\x1b[33m"].filter((color) => plain.terminal.text.includes(color))).toEqual([]);
  });
});

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
