// What a command may touch of the process. `main.ts` hands in the real one, a test hands in its own.
import type { TerminationSignal } from "./exit-codes.ts";

export interface CommandIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** How many files the process may have open, sockets among them; null if the system does not say. */
  readonly maxOpenFiles: () => number | null;
  /** Writes to standard output, as it is: lines end with their own newline. */
  out(text: string): void;
  err(text: string): void;
  /** Calls back on each SIGTERM, SIGINT and SIGHUP. From then on they do not end the process by themselves. */
  onSignal(handler: (signal: TerminationSignal) => void): void;
}
