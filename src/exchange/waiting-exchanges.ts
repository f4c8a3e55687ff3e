// The exchanges whose verdict is awaited, so that a stop of the gateway can end them.
interface WaitingExchange {
  /** Its index among those that wait; set here only. */
  waitingIndex: number;
  abort(): void;
}

/**
 * The exchanges whose verdict is awaited. Not a Set: when a Set grows or is cleaned of what was deleted, the table that it
 * leaves behind refers to the next one. Once one of them is old garbage, it keeps all later tables, and the requests in
 * them, from being collected while they are young, which took a tenth of the processor time.
 */
export class WaitingExchanges<E extends WaitingExchange> {
  readonly #all: E[] = [];

  add(exchange: E): void {
    exchange.waitingIndex = this.#all.length;
    this.#all.push(exchange);
  }

  delete(exchange: E): void {
    if (this.#all[exchange.waitingIndex] !== exchange) return;
    const last = this.#all.pop();
    if (last === undefined || last === exchange) return;
    this.#all[exchange.waitingIndex] = last;
    last.waitingIndex = exchange.waitingIndex;
  }

  /** Aborts all that wait now, whose connections may be closed already. */
  abortAll(): void {
    for (const exchange of [...this.#all]) exchange.abort();
  }
}
