// The parts of the process that a command may use. `main.ts` passes the real process, a test its own.
import type { TerminationSignal } from "./exit-codes.ts";

export interface CommandIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Maximum of open files of the process, including sockets; null if it is unknown. */
  readonly maxOpenFiles: () => number | null;
  /** Writes text unchanged to standard output; the text contains its newlines. */
  out(text: string): void;
  err(text: string): void;
  /** Calls back on each SIGTERM, SIGINT and SIGHUP, which then no longer end the process by themselves. */
  onSignal(handler: (signal: TerminationSignal) => void): void;
}
