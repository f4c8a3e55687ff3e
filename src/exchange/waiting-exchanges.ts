// The exchanges whose verdict is awaited. Not a Set: when a Set grows or is cleaned of what was deleted, the table that it
// leaves behind refers to the next one. Once one of them is old garbage, it keeps all later tables, and the requests in
// them, from being collected while they are young, which took a tenth of the processor time.

export interface Waiting {
  /** Its place; set here only. */
  place: number;
  abort(): void;
}

export class WaitingExchanges<E extends Waiting> {
  readonly #all: E[] = [];

  add(exchange: E): void {
    exchange.place = this.#all.length;
    this.#all.push(exchange);
  }

  delete(exchange: E): void {
    if (this.#all[exchange.place] !== exchange) return;
    const last = this.#all.pop();
    if (last === undefined || last === exchange) return;
    this.#all[exchange.place] = last;
    last.place = exchange.place;
  }

  /** Aborts all that wait now, whose connections may be closed already. */
  abortAll(): void {
    for (const exchange of [...this.#all]) exchange.abort();
  }
}
