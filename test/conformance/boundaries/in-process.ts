// Mutated messages, cut at random, as our codec and llhttp read them in this process. Ours must be the same in whatever pieces;
// llhttp must see the same messages, unless one of the two refuses them.
import { Random } from "../fuzz/random.ts";
import { requestCase } from "../fuzz/request-cases.ts";
import { responseCase } from "../fuzz/response-cases.ts";
import { readStrictRequests } from "../fuzz/strict-requests.ts";
import { readStrictResponse } from "../fuzz/strict-response.ts";
import { type Difference, requestDifferences, responseDifferences } from "./differences.ts";
import { readByLlhttp, readResponseByLlhttp } from "./llhttp.ts";
import { readOurResponse, readOurs } from "./ours.ts";
import { compare, type Reading } from "./reading.ts";
import { compareResponses } from "./response-reading.ts";

export interface Figures {
  readonly verdicts: Record<string, number>;
  /** Of what llhttp refuses and we read. */
  readonly differences: Record<string, number>;
  readonly flaws: string[];
}

const newFigures = (): Figures => ({ verdicts: {}, differences: {}, flaws: [] });

export function compareRequests(count: number, firstSeed: number): Figures {
  const figures = newFigures();
  for (let seed = firstSeed; seed < firstSeed + count; seed += 1) {
    const { bytes, pieces } = requestCase(seed);
    const ours = readOurs([bytes]);
    const cut = [pieces, cutAtRandom(bytes, seed)].map((parts) => readOurs(parts));
    const theirs = readByLlhttp([bytes]);
    const verdict = compare(ours, theirs);
    const flaw = cut.some((reading) => !isSame(reading, ours))
      ? `cut, we read ${JSON.stringify(cut)}`
      : (strictFlaw(ours, bytes) ?? note(figures, verdict, bytes, requestDifferences));
    if (flaw !== null) {
      figures.flaws.push(
        `seed ${seed}: ${flaw}\n  ${JSON.stringify(bytes)}\n  ours ${JSON.stringify(ours)}\n  llhttp ${JSON.stringify(theirs)}`,
      );
    }
  }
  return figures;
}

export function compareResponsesOf(count: number, firstSeed: number): Figures {
  const figures = newFigures();
  for (let seed = firstSeed; seed < firstSeed + count; seed += 1) {
    const { bytes, method, pieces, ending } = responseCase(seed);
    const isClosed = ending === "close";
    const ours = readOurResponse([bytes], method, isClosed);
    const cut = [pieces, cutAtRandom(bytes, seed)].map((parts) => readOurResponse(parts, method, isClosed));
    const theirs = readResponseByLlhttp([bytes], method, isClosed);
    const verdict = compareResponses(ours, theirs);
    const strict = readStrictResponse(bytes, method, isClosed);
    // Whoever did not ask for an Upgrade makes nothing of a 101.
    const isJudged = ours.outcome === "whole" && ours.status !== 101;
    const isSound = !isJudged || (strict.kind === "whole" && strict.body === ours.body);
    const flaw = cut.some((reading) => !isSame(reading, ours))
      ? `cut, we read ${JSON.stringify(cut)}`
      : isSound
        ? note(figures, verdict, bytes, responseDifferences)
        : `RFC 9112 reads ${JSON.stringify(strict)}`;
    if (flaw !== null) {
      figures.flaws.push(
        `seed ${seed}: ${flaw}\n  ${method} ${ending} ${JSON.stringify(bytes)}\n  ours ${JSON.stringify(ours)}\n  llhttp ${JSON.stringify(theirs)}`,
      );
    }
  }
  return figures;
}

function cutAtRandom(bytes: string, seed: number): string[] {
  const random = new Random(seed ^ 0x5eed);
  return random.pieces(bytes, 1 + random.int(random.oneIn(8) ? 200 : 6));
}

/** The bodies of what is refused or broken off may have come further in one piece. */
function isSame(cut: object, whole: object): boolean {
  return JSON.stringify(cut) === JSON.stringify(whole);
}

/** Whatever we read is what RFC 9112 allows to be read. */
function strictFlaw({ requests }: Reading, bytes: string): string | null {
  const strict = readStrictRequests(bytes);
  const wrong = requests.findIndex(({ target, body, isWhole }, i) => {
    const found = strict[i];
    if (found === undefined || found.target !== pathOf(target)) return true;
    return isWhole === true ? !found.body.isWhole || found.body.text !== body : !found.body.text.startsWith(body ?? "");
  });
  return wrong === -1 ? null : `RFC 9112 reads request ${wrong} as ${JSON.stringify(strict[wrong])}`;
}

function pathOf(target: string): string {
  const rest = /^https?:\/\/[^/?#]*(.*)$/i.exec(target)?.[1];
  if (rest === undefined) return target;
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/** Counts a verdict. Returns what is wrong with it. */
function note(figures: Figures, verdict: string, bytes: string, differences: readonly Difference[]): string | null {
  figures.verdicts[verdict] = (figures.verdicts[verdict] ?? 0) + 1;
  if (verdict === "different") return "other boundaries";
  if (verdict !== "they refuse") return null;
  const known = differences.find(({ isIn }) => isIn(bytes));
  if (known === undefined) return "llhttp refuses it, which is no known difference";
  figures.differences[known.refuses] = (figures.differences[known.refuses] ?? 0) + 1;
  return null;
}
