// Reads keys from the bytes of a terminal, however they are cut. The escape key sends the byte with which the sequences of other
// keys begin: which of them it was is known when more bytes come, or when the caller has waited for them in vain.
// ECMA-48, section 5.4 (control sequences); xterm and the Linux console send these for the keys.

type NamedKey =
  | "up"
  | "down"
  | "pageUp"
  | "pageDown"
  | "home"
  | "end"
  | "enter"
  | "escape"
  | "backspace"
  /** Ctrl-C. */
  | "interrupt"
  /** Ctrl-Z. */
  | "suspend"
  /** Ctrl-L. */
  | "redraw";

export type Key =
  | { readonly name: NamedKey }
  /** One code point that is no control character. */
  | { readonly name: "character"; readonly character: string };

const controls: ReadonlyMap<string, NamedKey> = new Map([
  ["\r", "enter"],
  ["\n", "enter"],
  ["\x7f", "backspace"],
  ["\b", "backspace"],
  ["\x03", "interrupt"],
  ["\x1a", "suspend"],
  ["\x0c", "redraw"],
]);

/** By the last byte of a sequence. */
const byFinal: ReadonlyMap<string, NamedKey> = new Map([
  ["A", "up"],
  ["B", "down"],
  ["H", "home"],
  ["F", "end"],
]);

/** By the first parameter of a sequence that ends in a tilde. */
const byNumber: ReadonlyMap<string, NamedKey> = new Map([
  ["1", "home"],
  ["4", "end"],
  ["5", "pageUp"],
  ["6", "pageDown"],
  ["7", "home"],
  ["8", "end"],
]);

const escapeCharacter = "\x1b";
/** After the escape character: `[` with parameters, intermediate bytes and a last byte, or `O` and one byte. */
const sequence = /^(?:\[(?<parameters>[0-?]*)[ -/]*|O)(?<final>[@-~])/;
const unfinished = /^(?:\[[0-?]*[ -/]*|O)?$/;
/** No key has a longer one. */
const maxSequenceLength = 32;

export class KeyReader {
  readonly #decoder = new TextDecoder();
  #rest = "";

  /** Whether a sequence has begun that may be the escape key alone. */
  get isWaiting(): boolean {
    return this.#rest !== "";
  }

  read(bytes: Uint8Array): Key[] {
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    const keys: Key[] = [];
    while (this.#rest !== "" && !isUnfinished(this.#rest)) {
      const [length, key] = firstKey(this.#rest);
      this.#rest = this.#rest.slice(length);
      if (key !== null) keys.push(key);
    }
    return keys;
  }

  /** Call when nothing came for a while: what has begun was the escape key. */
  flush(): Key[] {
    const keys: Key[] = this.#rest === "" ? [] : [{ name: "escape" }];
    this.#rest = "";
    return keys;
  }
}

function isUnfinished(text: string): boolean {
  return text.startsWith(escapeCharacter) && text.length < maxSequenceLength && unfinished.test(text.slice(1));
}

/** The key at the beginning, null for one without a meaning, and how much of the text it is. */
function firstKey(text: string): [length: number, key: Key | null] {
  if (text.startsWith(escapeCharacter)) {
    const match = sequence.exec(text.slice(1));
    if (match === null) return [1, { name: "escape" }];
    const { parameters = "", final = "" } = match.groups ?? {};
    const name = final === "~" ? byNumber.get(parameters.split(";")[0] ?? "") : byFinal.get(final);
    return [1 + match[0].length, name === undefined ? null : { name }];
  }
  const character = String.fromCodePoint(text.codePointAt(0) ?? 0);
  const control = controls.get(character);
  if (control !== undefined) return [character.length, { name: control }];
  return [character.length, /\p{Cc}/u.test(character) ? null : { name: "character", character }];
}
