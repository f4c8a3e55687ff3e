// Draws lines on a terminal, and leaves it as it was: the alternate screen, the hidden cursor and the raw mode are all that is
// changed, because nobody can undo it after kill -9. Only lines that differ from what is shown are written.
import type { Terminal } from "../../io.ts";
import { type Line, painted, type Size } from "./lines.ts";

// Control functions of xterm, which the usual terminals have.
const enter = "\x1b[?1049h\x1b[?25l";
// Emptied from its top, because tmux keeps lines of an alternate screen that has grown.
const leave = "\x1b[0m\x1b[H\x1b[J\x1b[?25h\x1b[?1049l";

export class Drawing {
  readonly #terminal: Terminal;
  readonly #hasColors: boolean;
  #isOpen = false;
  #shown: readonly string[] = [];

  constructor(terminal: Terminal, hasColors: boolean) {
    this.#terminal = terminal;
    this.#hasColors = hasColors;
  }

  get size(): Size {
    return this.#terminal.size();
  }

  open(): void {
    this.#isOpen = true;
    this.restore();
    this.#terminal.write(enter);
  }

  /** May be called again. */
  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#terminal.write(leave);
    this.#terminal.setRaw(false);
  }

  /** Somebody else has written on the terminal, or has changed its mode: sets it again, and next writes all lines. */
  restore(): void {
    if (!this.#isOpen) return;
    this.#shown = [];
    this.#terminal.setRaw(true);
  }

  /** Lines are not wider than the terminal. */
  draw(lines: readonly Line[]): void {
    if (!this.#isOpen) return;
    const texts = lines.map((line) => painted(line, this.#hasColors));
    const changed = texts.flatMap((text, i) => (text === this.#shown[i] ? [] : [`\x1b[${i + 1};1H\x1b[2K${text}`]));
    this.#shown = texts;
    if (changed.length > 0) this.#terminal.write(changed.join(""));
  }
}
