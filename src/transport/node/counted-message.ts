// Node's request, with a count of the pieces and bytes of its body: each piece costs CPU, whatever its length.
import { headerValue } from "../../core/header-list.ts";
import { IncomingMessage } from "../../exchange/node-http.ts";

export class CountedMessage extends IncomingMessage {
  pieces = 0;
  /** Without the framing of chunks. */
  bodyBytes = 0;
  #length: number | null = null;

  /** The bytes of a body with a Content-Length that have not been parsed; 0 for a chunked body. */
  get leftBytes(): number {
    if (this.complete) return 0;
    this.#length ??= Number(headerValue(this.rawHeaders, "content-length") ?? 0);
    return Math.max(0, this.#length - this.bodyBytes);
  }

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    if (chunk !== null) {
      this.pieces += 1;
      this.bodyBytes += chunk.length;
    }
    return super.push(chunk, encoding);
  }
}
