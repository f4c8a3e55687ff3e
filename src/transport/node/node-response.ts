// Node's response, which tells its transport what becomes of it without a listener made for each request.
import { ServerResponse } from "node:http";

export interface ResponseListener {
  /** The response has ended, or its connection has. */
  onClose(): void;
  onDrain(): void;
}

export class NodeResponse extends ServerResponse {
  #listener: ResponseListener | null = null;

  tell(listener: ResponseListener): void {
    this.#listener = listener;
    this.once("close", this.#onClose);
    this.on("drain", this.#onDrain);
    // A response that broke off is told by "close"; without a listener the error would end the process.
    this.on("error", ignoreBreak);
  }

  #onClose(): void {
    this.#listener?.onClose();
  }

  #onDrain(): void {
    this.#listener?.onDrain();
  }
}

export function ignoreBreak(): void {}
