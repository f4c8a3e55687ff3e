// The terminal of the process, for a command that draws. Changes no mode and writes nothing by itself.
import type { Terminal, TerminalHandlers } from "./io.ts";

type Program = Pick<NodeJS.Process, "env" | "stdin" | "stdout" | "pid" | "on" | "off" | "kill">;

/** Signals that stop a process do so at once, or not at all: nobody could continue it. */
const stopMs = 100;

/** `program`: the process. Null: text cannot be placed, or no keys can be read. */
export function openTerminal(program: Program): Terminal | null {
  const { stdin, stdout, env } = program;
  const { TERM: kind = "" } = env;
  return stdin.isTTY && stdout.isTTY && !["", "dumb"].includes(kind) ? new ProcessTerminal(program) : null;
}

class ProcessTerminal implements Terminal {
  readonly #program: Program;
  #onStop: () => void = () => {};

  constructor(program: Program) {
    this.#program = program;
  }

  size() {
    const { columns, rows } = this.#program.stdout;
    // A terminal that does not know its size says 0.
    return { columns: columns || 80, rows: rows || 24 };
  }

  write(text: string): void {
    this.#program.stdout.write(text);
  }

  setRaw(isRaw: boolean): void {
    const { stdin } = this.#program;
    // Node does not set again what it has set, but a shell changes the mode while the process is stopped.
    if (isRaw) stdin.setRawMode(false);
    stdin.setRawMode(isRaw);
  }

  read(handlers: TerminalHandlers): () => void {
    const { stdin, stdout } = this.#program;
    const program = this.#program;
    const { onInput, onEnd, onResize, onStop, onContinue, onExit } = handlers;
    this.#onStop = onStop;
    stdin.on("data", onInput).on("end", onEnd).on("error", onEnd);
    stdout.on("resize", onResize).on("error", onEnd);
    program.on("SIGTSTP", onStop).on("SIGCONT", onContinue);
    // Node prints an error that nobody has caught after this event, so it is not lost with what was drawn.
    program.on("exit", onExit);
    return () => {
      stdin.off("data", onInput).off("end", onEnd).pause();
      stdout.off("resize", onResize);
      program.off("SIGTSTP", onStop).off("SIGCONT", onContinue);
      program.off("exit", onExit);
    };
  }

  async stop(who: "group" | "process"): Promise<void> {
    const program = this.#program;
    const onStop = this.#onStop;
    // Without a listener, the signal does what it does by default.
    program.off("SIGTSTP", onStop);
    await new Promise<void>((resolve) => {
      const goOn = (): void => {
        clearTimeout(timer);
        program.off("SIGCONT", goOn);
        resolve();
      };
      const timer = setTimeout(goOn, stopMs);
      program.on("SIGCONT", goOn);
      program.kill(who === "group" ? 0 : program.pid, "SIGTSTP");
    });
    program.on("SIGTSTP", onStop);
  }
}
