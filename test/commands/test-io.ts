// A process for a command under test: what it writes can be read, and a signal can be sent to it.
import type { CommandIo, TerminalSize, TerminationSignal } from "../../src/commands/io.ts";

export interface TestIo extends CommandIo {
  outText(): string;
  errText(): string;
  signal(signal: TerminationSignal): void;
}

export function testIo({
  env = {},
  cwd = "/",
  maxOpenFiles = null,
  input = "",
  terminal = null,
}: {
  env?: Record<string, string>;
  cwd?: string;
  maxOpenFiles?: number | null;
  /** Of standard input. */
  input?: string;
  terminal?: TerminalSize | null;
} = {}): TestIo {
  const out: string[] = [];
  const err: string[] = [];
  const handlers: ((signal: TerminationSignal) => void)[] = [];
  return {
    env,
    cwd,
    maxOpenFiles: () => maxOpenFiles,
    residentBytes: () => 0,
    readInput: async (maxBytes) => Buffer.from(input).subarray(0, maxBytes + 1),
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
    isOutputRead: () => true,
    onSignal: (handler) => void handlers.push(handler),
    outText: () => out.join(""),
    errText: () => err.join(""),
    signal: (signal) => {
      for (const handler of handlers) handler(signal);
    },
    terminalSize: () => terminal,
  };
}
