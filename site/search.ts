// What the search takes for a word, and what it finds for one. The texts of these functions are sent to the browser, so they use
// nothing else of this file.

/** A key such as `requests_per_unit` is a word, and so is each of its parts. A single letter would mark every page. */
export function wordsOf(text: string): string[] {
  return text
    .split(/[^\p{L}\p{N}_.-]+/u)
    .map((word) => word.replace(/^[.-]+|[.-]+$/g, ""))
    .flatMap((word) => (/[_.-]/.test(word) ? [word, ...word.split(/[_.-]+/)] : [word]))
    .filter((word) => word.length > 1);
}

/** Only the word that is being typed may go on, and only a long one may be misspelled: others find too much. */
export const searchOptions = {
  prefix: (word: string, i: number, words: readonly string[]) => i === words.length - 1 && word.length > 2,
  fuzzy: (word: string) => (word.length > 4 ? 0.2 : false),
};
