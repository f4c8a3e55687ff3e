// The text of a command that a person may type next, with the same gateway as the command that prints it.
import type { ConnectionArguments } from "./invocation.ts";

/** `words`: the command and its arguments; each is quoted as a shell needs it. */
export function commandText(words: readonly string[], connection: ConnectionArguments): string {
  const { socket, url, tokenFile, ca, config } = connection;
  const given = Object.entries({ socket, url: url?.origin, "token-file": tokenFile, ca, config });
  const options = given.flatMap(([name, value]) => (value == null ? [] : [`--${name}`, value]));
  return ["headgate", ...words, ...options].map(quoted).join(" ");
}

/** A shell reads nothing in single quotes. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
