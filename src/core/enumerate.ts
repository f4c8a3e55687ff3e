// Lists words for people.

/** Returns `a, b or c`; "" for none. */
export function enumerate(words: readonly string[], conjunction = "or"): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} ${conjunction} ${words.at(-1)}`;
}
