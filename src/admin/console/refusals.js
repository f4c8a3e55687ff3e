// The refusals that the page knows: those of a client with one status and reason are one row. A client that floods the gateway
// pushes out its own, and not the rows of the others.

/** How many are kept of a row, and how many rows. */
const maxOfRow = 20;
const maxRows = 200;

export class Refusals {
  #rows = new Map();

  /** Those that are known already are not counted again. */
  add(request) {
    const name = JSON.stringify([request.client, request.status, request.reason]);
    const { requests, first, count } = this.#rows.get(name) ?? { requests: [], first: request.at, count: 0 };
    if (requests.some(({ id }) => id === request.id)) return;
    // Of those that are not kept any more.
    if (count > requests.length && msOf(request) <= msOf(requests.at(-1))) return;
    const kept = [request, ...requests].sort((a, b) => msOf(b) - msOf(a)).slice(0, maxOfRow);
    const isFirst = Date.parse(first) > msOf(request);
    this.#rows.set(name, { name, requests: kept, first: isFirst ? request.at : first, count: count + 1 });
    if (this.#rows.size > maxRows) this.#rows.delete(this.#oldest().name);
  }

  #oldest() {
    return this.#rows.values().reduce((a, b) => (msOf(b.requests[0]) < msOf(a.requests[0]) ? b : a));
  }

  /**
   * For each `{ name, requests, first, count }`: the newest requests, when the first of all was, and how many they are. The
   * last first.
   */
  get rows() {
    return [...this.#rows.values()].reverse().sort((a, b) => msOf(b.requests[0]) - msOf(a.requests[0]));
  }
}

/** Of a list, as `Refusals.rows`. */
export function rowsOf(requests) {
  const refusals = new Refusals();
  for (const request of requests) refusals.add(request);
  return refusals.rows;
}

/**
 * The last request of the row that has the most of the last minute; of equal ones, that whose came in the shortest time. Of those
 * that are kept, because a row's count began when the page was opened.
 */
export function mostOf(rows, nowMs) {
  const kept = rows.map(({ requests }) => requests.filter((each) => nowMs - msOf(each) < 60_000));
  const score = (those) => those.length - (msOf(those[0]) - msOf(those.at(-1))) / 60_000;
  return kept.filter(({ length }) => length > 0).sort((a, b) => score(b) - score(a))[0]?.[0];
}

function msOf({ at }) {
  return Date.parse(at) || 0;
}
