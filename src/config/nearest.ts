// Finds the name that was probably meant. The distance counts insertions, deletions, substitutions and swaps of adjacent
// characters (optimal string alignment). Case and separators are ignored, because they are confused most often.

/** The candidate with the smallest distance, at most a third of the name's length; otherwise null. */
export function nearest(name: string, candidates: Iterable<string>): string | null {
  const folded = fold(name);
  if (folded.length === 0 || folded.length > 100) return null;
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(folded.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(folded, fold(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** The nearest; otherwise up to three that have all words of the name, such as `responseTimeout` for `timeout`. */
export function suggestions(name: string, candidates: readonly string[]): string[] {
  const best = nearest(name, candidates);
  if (best !== null) return [best];
  const words = wordsOf(name);
  const longer = candidates.filter((candidate) => words.every((word) => wordsOf(candidate).includes(word)));
  return words.length > 0 && longer.length <= 3 ? longer : [];
}

const wordsOf = (name: string): string[] =>
  name
    .replaceAll(/(?<=[a-z])[A-Z]/g, "_$&")
    .toLowerCase()
    .split(/[_-]+/)
    .filter((word) => word !== "");

const fold = (name: string): string => name.toLowerCase().replaceAll(/[_-]/g, "");

function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substituted = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let distance = Math.min(substituted, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        distance = Math.min(distance, (beforePrevious[j - 2] ?? 0) + 1);
      }
      row.push(distance);
    }
    beforePrevious = previous;
    previous = row;
  }
  return previous[b.length] ?? 0;
}
