// What the search takes for a word.

/**
 * A key such as `requests_per_unit` is a word, and so is each of its parts. The text of this function is sent to the browser, so
 * it uses nothing else of this file.
 */
export function wordsOf(text: string): string[] {
  return text
    .split(/[^\p{L}\p{N}_.-]+/u)
    .map((word) => word.replace(/^[.-]+|[.-]+$/g, ""))
    .flatMap((word) => (/[_.-]/.test(word) ? [word, ...word.split(/[_.-]+/)] : [word]));
}
