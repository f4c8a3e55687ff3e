// The parts of the process that a command may use. `main.ts` passes the real process, a test its own.

export interface CommandIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Maximum of open files of the process, including sockets; null if it is unknown. */
  readonly maxOpenFiles: () => number | null;
  /** The memory of the process, as the system counts it. */
  readonly residentBytes: () => number;
  /** Reads standard input to its end, or one byte more than `maxBytes`. */
  readInput(maxBytes: number): Promise<Buffer>;
  /** Writes text unchanged to standard output; the text contains its newlines. */
  out(text: string): void;
  err(text: string): void;
  /** False once standard output was written to after its reader had left. */
  isOutputRead(): boolean;
  /** Calls back on each SIGTERM, SIGINT and SIGHUP, which then no longer end the process by themselves. */
  onSignal(handler: (signal: TerminationSignal) => void): void;
  /** Of the terminal that standard output is; null if it is none that can place text. */
  terminalSize(): TerminalSize | null;
}

export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** As in sysexits.h, so that a supervisor or a script can tell wrong usage or configuration from a failure. */
export const exitCodes = {
  ok: 0,
  /** A running gateway has refused what it was asked, or has not found it. */
  refused: 1,
  /** The command line was wrong. */
  usage: 64,
  /** A listener could not be opened, Node is too old, or a running gateway cannot be reached. */
  unavailable: 69,
  /** A bug. */
  internal: 70,
  /** A running gateway or its socket does not permit it. */
  notPermitted: 77,
  /** The configuration was wrong; no port was opened. */
  config: 78,
} as const;

/** What is said of a wrong command line. `topic`: the command; null: there is none. */
export function usageError(topic: string | null, message: string): string {
  const command = topic === null ? "headgate" : `headgate ${topic}`;
  return `${command}: ${message}\nTry "${command} --help".\n`;
}

/** A second signal ended the process during the drain: 128 plus the number of the signal, as in a shell. */
export const signalExitCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

export type TerminationSignal = keyof typeof signalExitCodes;

export const isSignalExitCode = (code: number): boolean => code > 128;

/**
 * Why a command could not do what it was asked: for people, with the exit code. A command that needs several answers of
 * a gateway ends with the first that fails.
 */
export class CommandError extends Error {
  readonly exitCode: (typeof exitCodes)["refused" | "usage" | "unavailable" | "notPermitted" | "config"];
  /** In sentences, beside the message. */
  readonly details: readonly string[];

  constructor(exitCode: CommandError["exitCode"], message: string, details: readonly string[] = [], cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
    this.exitCode = exitCode;
    this.details = details;
  }
}
