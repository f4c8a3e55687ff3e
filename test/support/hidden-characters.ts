// Texts with a character that a reader does not see, or that changes how others are shown.
export const hiddenTexts: readonly (readonly [what: string, text: string])[] = [
  ["a line feed", "a\nb"],
  ["an escape sequence", "a\u001b[2Jb"],
  ["a control character of C1", "a\u009bb"],
  ["a right-to-left override", "a\u202eb"],
  ["a right-to-left isolate", "a\u2067b"],
  ["a mark of Arabic letters", "a\u061cb"],
  ["a zero-width space", "a\u200bb"],
  ["a zero-width joiner", "a\u200db"],
  ["a byte order mark", "a\ufeffb"],
  ["a soft hyphen", "a\u00adb"],
  ["a word joiner", "a\u2060b"],
  ["a separator of lines", "a\u2028b"],
  ["a separator of paragraphs", "a\u2029b"],
  ["a Hangul filler", "a\u3164b"],
  ["a combining grapheme joiner", "a\u034fb"],
  ["a variation selector", "a\ufe0fb"],
  ["a supplementary variation selector", "a\u{e0101}b"],
  ["a tag", "a\u{e0041}b"],
  ["a blank of Braille", "a\u2800b"],
  ["half of a surrogate pair", "a\ud800b"],
  ["a character of private use", "a\ue000b"],
];

/** Is shown as it is. */
export const visibleText = "Grüße, 支払い \u0645\u062f\u0641\u0648\u0639 €5 → #7 \u{1f512} e\u0301";
