// The text of a file with a password. Editors and `echo` end a line with a line break, which belongs to no password.

/** Null if there is none, or more than one line. */
export function passwordIn(text: string): string | null {
  const line = text.replace(/^\uFEFF/, "").replace(/(\r?\n)+$/, "");
  return line.trim() === "" || /[\r\n]/.test(line) ? null : line;
}
