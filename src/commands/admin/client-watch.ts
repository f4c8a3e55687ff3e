// `headgate clients --watch`: the table of clients, again and again until a signal. No mode of the terminal stays changed for longer
// than one write, so nothing has to be restored, whatever stops or ends the command.
import { once } from "node:events";
import type { ClientsWanted } from "../../admin/control-plane.ts";
import { systemClock } from "../../core/clock.ts";
import { CommandError, type CommandIo, exitCodes, type TerminalSize } from "../io.ts";
import { reportClients } from "./client-report.ts";
import type { ConnectedGateway } from "./connect.ts";
import { errorLines, instantText, jsonText, linesText, printable, type Report } from "./printed.ts";

/** Between an answer and the next call. */
const pauseMs = 2_000;

/**
 * Resolves with the exit code after the first signal, or when nobody reads the output any more. Rejects if the first call fails,
 * or one is not permitted.
 */
export async function watchClients(
  gateway: ConnectedGateway,
  wanted: ClientsWanted,
  isJson: boolean,
  io: CommandIo,
): Promise<number> {
  const ended = new AbortController();
  io.onSignal(() => ended.abort());
  const isDrawn = !isJson && io.terminalSize() !== null;
  const show = isDrawn ? drawer(io) : printer(isJson, io);
  const isWanted = () => !ended.signal.aborted && io.isOutputRead();
  await Promise.race([once(ended.signal, "abort"), repeat(() => reportClients(gateway, wanted), show, isWanted)]);
  // The terminal has shown ^C at the beginning of this line.
  if (isDrawn) io.out("\n");
  return exitCodes.ok;
}

type Show = (report: Report | CommandError) => void;

async function repeat(ask: () => Promise<Report>, show: Show, isWanted: () => boolean): Promise<void> {
  for (let isFirst = true; isWanted(); isFirst = false) {
    const report = await ask().catch((error: unknown) => {
      // A wrong token that is sent again and again would lock out everybody at this address.
      if (isFirst || !(error instanceof CommandError) || error.exitCode === exitCodes.notPermitted) throw error;
      return error;
    });
    if (!isWanted()) return;
    show(report);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** Prints each answer below the one before, with an empty line between them. */
function printer(isJson: boolean, io: CommandIo): Show {
  let separator = "";
  return (report) => {
    if (report instanceof CommandError) return io.err(linesText(errorLines(report)));
    io.out(`${separator}${isJson ? jsonText(report.answer) : linesText(report.lines())}`);
    separator = "\n";
  };
}

/** Draws the table over the one before. An error is shown above the last table. */
function drawer(io: CommandIo): Show {
  let table: readonly string[] = [];
  return (report) => {
    const size = io.terminalSize() ?? { columns: 80, rows: 24 };
    const failure = report instanceof CommandError ? errorLines(report) : [];
    // What the terminal has shown so far stays in its scrollback.
    if (table.length === 0) io.out("\n".repeat(size.rows));
    if (!(report instanceof CommandError)) table = [headline(), ...report.lines()];
    io.out(screenText([...failure, ...table], size));
  };
}

function headline(): string {
  const nowMs = systemClock.wallMs();
  return `At ${instantText(new Date(nowMs).toISOString(), nowMs)}, every ${pauseMs / 1000} s until Ctrl-C:`;
}

/**
 * Lines from the top of the screen, as many and as much of each as fit. Lines are not wrapped while they are written (DECAWM of
 * xterm), because some characters are two columns wide.
 */
function screenText(lines: readonly string[], { columns, rows }: TerminalSize): string {
  const shown = lines.slice(0, rows - 1).map((line) => `\x1b[2K${printable(line).slice(0, columns)}\n`);
  return `\x1b[?7l\x1b[H${shown.join("")}\x1b[J\x1b[?7h`;
}
