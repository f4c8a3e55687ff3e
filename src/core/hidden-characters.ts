// Characters that a reader does not see, or that change how others are shown: control characters, those that turn the
// direction of text, separators of lines, halves of surrogate pairs, private ones, and those that Unicode lets programs
// leave out (joiners, fillers, variation selectors, tags). U+2800, a blank of Braille, is in none of these classes.

export const hiddenCharacters = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;

export function withoutHidden(text: string): string {
  return text.replace(hiddenCharacters, "");
}
