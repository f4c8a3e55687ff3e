// The share of the requests that the busiest client sends. If nearly all come from one client, it is probably a proxy
// that is not trusted, whose clients share one quota. Keeps two clients, however many there are: a vote (Boyer and Moore)
// finds the client with more than half of the requests of an interval, and its requests of the next interval are counted.

const intervalMs = 60_000;

/** A share of fewer requests says nothing. */
const minRequests = 100;

export class BusiestClient {
  #candidate = "";
  #votes = 0;
  /** The winner of the vote in the interval before. */
  #counted = "";
  #ofCounted = 0;
  #requests = 0;
  #endsMs = Number.NEGATIVE_INFINITY;
  #ratio = 0;

  /** `nowMs` is an instant of the monotonic clock. */
  count(client: string, nowMs: number): void {
    if (nowMs >= this.#endsMs) this.#endInterval(nowMs);
    this.#requests += 1;
    if (client === this.#counted) this.#ofCounted += 1;
    if (client === this.#candidate) this.#votes += 1;
    else if (this.#votes > 0) this.#votes -= 1;
    else {
      this.#candidate = client;
      this.#votes = 1;
    }
  }

  /** Returns the share in the last complete minute; 0 if nobody sent more than half of the requests, or few were sent. */
  ratio(nowMs: number): number {
    if (nowMs >= this.#endsMs) this.#endInterval(nowMs);
    return this.#ratio;
  }

  #endInterval(nowMs: number): void {
    const ratio = this.#requests < minRequests ? 0 : this.#ofCounted / this.#requests;
    // An interval without a request may have passed since.
    this.#ratio = ratio > 0.5 && nowMs < this.#endsMs + intervalMs ? ratio : 0;
    this.#counted = this.#candidate;
    this.#candidate = "";
    this.#votes = 0;
    this.#ofCounted = 0;
    this.#requests = 0;
    this.#endsMs = nowMs + intervalMs;
  }
}
