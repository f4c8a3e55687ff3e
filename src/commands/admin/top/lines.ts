// Lines for a terminal: pieces of text, each with a style. All text is ASCII, so a character is one column: what comes from
// elsewhere is escaped, control characters and wide characters alike.
import type { Terminal } from "../../io.ts";

type Style = "bold" | "dim" | "reverse" | "good" | "warning" | "bad";

export interface Piece {
  readonly text: string;
  readonly style: Style | null;
}

export type Line = readonly Piece[];

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

export function plain(text: string): Piece {
  return { text: ascii(text), style: null };
}

export function styled(style: Style, text: string): Piece {
  return { text: ascii(text), style };
}

export function ascii(text: string): string {
  return text.replace(/[^ -~]/gu, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}

export function lineText(line: Line): string {
  return line.map(({ text }) => text).join("");
}

/** At most so many columns. */
export function cut(line: Line, columns: number): Line {
  let left = Math.max(0, columns);
  return line.flatMap((piece) => {
    const text = piece.text.slice(0, left);
    left -= text.length;
    return text === "" ? [] : [{ ...piece, text }];
  });
}

/** The whole line in one style, as wide as the terminal. */
export function highlighted(line: Line, columns: number): Line {
  return [{ text: lineText(line).padEnd(columns), style: "reverse" }];
}

/** A text that is too long ends in a tilde. `width`: at least 1. */
export function fitted(text: string, width: number): string {
  return text.length <= width ? text.padEnd(width) : `${text.slice(0, width - 1)}~`;
}

/** `[||||    ]`. `share`: from 0 to 1. `width`: at least 3. */
export function bar(share: number, width: number): Piece {
  const filled = share > 0 ? Math.max(1, Math.floor(share * (width - 2))) : 0;
  const style = share >= 1 ? "bad" : share >= 0.75 ? "warning" : "good";
  return { text: `[${"|".repeat(filled).padEnd(width - 2)}]`, style };
}

// Select Graphic Rendition, ECMA-48 section 8.3.117.
const codes: Readonly<Record<Style, { readonly sgr: string; readonly isColor: boolean }>> = {
  bold: { sgr: "\x1b[1m", isColor: false },
  dim: { sgr: "\x1b[2m", isColor: false },
  reverse: { sgr: "\x1b[7m", isColor: false },
  good: { sgr: "\x1b[32m", isColor: true },
  warning: { sgr: "\x1b[33m", isColor: true },
  bad: { sgr: "\x1b[31m", isColor: true },
};

/** For a terminal. */
export function painted(line: Line, hasColors: boolean): string {
  return line
    .map(({ text, style }) => {
      if (style === null || (codes[style].isColor && !hasColors)) return text;
      return `${codes[style].sgr}${text}\x1b[0m`;
    })
    .join("");
}

// Control functions of xterm, which the usual terminals have.
const enter = "\x1b[?1049h\x1b[?25l";
// Emptied from its top, because tmux keeps lines of an alternate screen that has grown.
const leave = "\x1b[0m\x1b[H\x1b[J\x1b[?25h\x1b[?1049l";

/**
 * Draws lines on a terminal, and leaves it as it was: the alternate screen, the hidden cursor and the raw mode are all
 * that is changed, because nobody can undo it after kill -9. Only lines that differ from what is shown are written.
 */
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
