// Compresses the texts of scrapes off the event loop, one at a time: however many clients ask for gzip, it takes a
// millisecond of one thread of Node's pool for each text that is rendered.
import { promisify } from "node:util";
import { gzip } from "node:zlib";

const compress = promisify(gzip);
/** For this long, all requests for the same text share its bytes. */
const keptMs = 1_000;

export class Compressor {
  #last: { readonly text: string; readonly bytes: Promise<Buffer> } | null = null;
  #isBusy = false;

  /** Returns the text in gzip, or as it is while another text is being compressed. */
  async gzip(text: string): Promise<Buffer | string> {
    if (this.#last?.text === text) return this.#last.bytes;
    if (this.#isBusy) return text;
    this.#isBusy = true;
    const last = { text, bytes: compress(text, { level: 1 }).finally(() => (this.#isBusy = false)) };
    this.#last = last;
    setTimeout(() => {
      if (this.#last === last) this.#last = null;
    }, keptMs).unref();
    return last.bytes;
  }
}
