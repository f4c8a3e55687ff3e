// Node's response, which reports its events to its transport without a closure for each request.
import { ignoreError } from "../../core/failure.ts";
import { ServerResponse } from "../../exchange/node-http.ts";

export interface ResponseListener {
  /** The response has ended, or its connection has. */
  onClose(): void;
  onDrain(): void;
}

export class NodeResponse extends ServerResponse {
  #listener: ResponseListener | null = null;

  reportTo(listener: ResponseListener): void {
    this.#listener = listener;
    this.once("close", this.#onClose);
    this.on("drain", this.#onDrain);
    this.on("error", ignoreError);
  }

  #onClose(): void {
    this.#listener?.onClose();
  }

  #onDrain(): void {
    this.#listener?.onDrain();
  }
}
