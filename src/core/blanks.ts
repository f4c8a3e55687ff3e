// What HTTP allows around a value or an element, and no more: `trim` takes away a no-break space as well.

/** The text from `from` to before `to` without the blanks around it. In one pass each way. */
export function trimBlanks(text: string, from = 0, to = text.length): string {
  let [start, end] = [from, to];
  while (start < end && isBlank(text.charCodeAt(start))) start += 1;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

function isBlank(character: number): boolean {
  return character === 0x20 || character === 0x09;
}
