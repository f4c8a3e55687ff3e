// Keys from the bytes of a terminal: every sequence, however it is cut, and the escape key alone.
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Key, KeyReader } from "../../../../src/commands/admin/top/keys.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const shown = (keys: readonly Key[]): string[] =>
  keys.map((key) => (key.name === "character" ? key.character : `<${key.name}>`));

const cases: [sent: string, keys: string[]][] = [
  ["ur", ["u", "r"]],
  ["\x1b[A", ["<up>"]],
  ["\x1bOB", ["<down>"]],
  ["\x1b[5~\x1b[6~", ["<pageUp>", "<pageDown>"]],
  ["\x1b[H\x1bOF\x1b[1~\x1b[4~", ["<home>", "<end>", "<home>", "<end>"]],
  // With a modifier.
  ["\x1b[1;5A\x1b[5;3~", ["<up>", "<pageUp>"]],
  // F5, a mouse report, an answer of the terminal: no key of ours.
  ["\x1b[15~\x1b[<0;1;1M\x1b[?62;c", []],
  ["\r\n\x7f\b", ["<enter>", "<enter>", "<backspace>", "<backspace>"]],
  ["\x03\x1a\x0c", ["<interrupt>", "<suspend>", "<redraw>"]],
  // Other control characters, and those of C1.
  ["\x00\x01\x0e\u0085\u009b", []],
  ["é😀", ["é", "😀"]],
  // Escape, and a key that came at once.
  ["\x1bq", ["<escape>", "q"]],
  ["\x1b\x1b[A", ["<escape>", "<up>"]],
];

test.each(cases)("%j is read", (sent, keys) => {
  expect(shown(new KeyReader().read(bytes(sent)))).toEqual(keys);
});

test("a text is read the same wherever it is cut", () => {
  const texts = fc.array(fc.constantFrom(...cases.map(([sent]) => sent)), { maxLength: 6 });
  fc.assert(
    fc.property(texts, fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 30 }), (parts, lengths) => {
      const whole = bytes(parts.join(""));
      const reader = new KeyReader();
      const keys: Key[] = [];
      let at = 0;
      for (let i = 0; at < whole.length; i += 1) {
        const length = Math.max(1, lengths[i % lengths.length] ?? 1);
        keys.push(...reader.read(whole.subarray(at, at + length)));
        at += length;
      }
      expect(shown(keys)).toEqual(shown(new KeyReader().read(whole)));
    }),
  );
});

test("the escape key is known when nothing follows it", () => {
  const reader = new KeyReader();
  expect(reader.read(bytes("\x1b"))).toEqual([]);
  expect(reader.isWaiting).toBe(true);
  expect(shown(reader.flush())).toEqual(["<escape>"]);
  expect(reader.isWaiting).toBe(false);
  expect(shown(reader.read(bytes("[")))).toEqual(["["]);
  expect(reader.flush()).toEqual([]);
});

test("a sequence without an end is not collected for ever", () => {
  const reader = new KeyReader();
  reader.read(bytes(`\x1b[${"1".repeat(1_000)}`));
  expect(reader.isWaiting).toBe(false);
});
