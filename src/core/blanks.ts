// The blanks that HTTP allows around a value or an element. `trim` would also remove others, such as a no-break space.

/** Returns the text from `from` to before `to` without the blanks around it, in linear time. */
export function trimBlanks(text: string, from = 0, to = text.length): string {
  let [start, end] = [from, to];
  while (start < end && isBlank(text.charCodeAt(start))) start += 1;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

export function isBlank(character: number): boolean {
  return character === 0x20 || character === 0x09;
}
