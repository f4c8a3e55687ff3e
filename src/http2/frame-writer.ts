// Puts frames together, so that all frames of a turn can be written at once. What is text stays text: one character is one
// byte. Bodies that came as bytes are not copied.
import { errorCodes, flags, frameTypes, maxFrameBytes } from "./protocol.ts";

export type Piece = string | Buffer;

export class FrameWriter {
  /** Since the connection began. */
  sentBytes = 0;
  /** Of those, the ones that were taken. */
  #takenBytes = 0;
  /** Before the text. Null: there are none, as with most writes. */
  #pieces: Piece[] | null = null;
  #text = "";

  get isEmpty(): boolean {
    return this.#text === "" && this.#pieces === null;
  }

  /** Bytes that wait to be taken. */
  get waitingBytes(): number {
    return this.sentBytes - this.#takenBytes;
  }

  /** Returns what is to be written, in order, and forgets it. */
  take(): readonly Piece[] {
    this.#takenBytes = this.sentBytes;
    this.#endText();
    const pieces = this.#pieces;
    this.#pieces = null;
    return pieces ?? none;
  }

  /** A block that is too long for one frame continues in others (RFC 9113, 6.10). */
  headers(stream: number, block: string, isEnd: boolean): void {
    const end = isEnd ? flags.endStream : 0;
    if (block.length <= maxFrameBytes) {
      this.#add(block.length, frameTypes.headers, flags.endHeaders | end, stream, block);
      return;
    }
    for (let at = 0; at < block.length; at += maxFrameBytes) {
      const part = block.slice(at, at + maxFrameBytes);
      const type = at === 0 ? frameTypes.headers : frameTypes.continuation;
      const isLast = at + maxFrameBytes >= block.length;
      this.#add(part.length, type, (isLast ? flags.endHeaders : 0) | (at === 0 ? end : 0), stream, part);
    }
  }

  data(stream: number, piece: Piece, isEnd: boolean): void {
    const end = isEnd ? flags.endStream : 0;
    if (typeof piece === "string") {
      this.#add(piece.length, frameTypes.data, end, stream, piece);
      return;
    }
    this.#add(piece.length, frameTypes.data, end, stream, "");
    this.#endText();
    this.#push(piece);
    this.sentBytes += piece.length;
  }

  reset(stream: number, code: number): void {
    this.#add(4, frameTypes.rstStream, 0, stream, uint32(code));
  }

  /** `settings`: identifier, value, identifier, value… */
  settings(settings: readonly number[]): void {
    let payload = "";
    for (let i = 0; i < settings.length; i += 2) payload += uint16(settings[i] ?? 0) + uint32(settings[i + 1] ?? 0);
    this.#add(payload.length, frameTypes.settings, 0, 0, payload);
  }

  settingsAck(): void {
    this.#add(0, frameTypes.settings, flags.ack, 0, "");
  }

  /** `payload`: eight bytes. */
  ping(payload: string, isAck: boolean): void {
    this.#add(payload.length, frameTypes.ping, isAck ? flags.ack : 0, 0, payload);
  }

  goaway(lastStream: number, code: number = errorCodes.noError): void {
    this.#add(8, frameTypes.goaway, 0, 0, uint32(lastStream) + uint32(code));
  }

  windowUpdate(stream: number, increment: number): void {
    this.#add(4, frameTypes.windowUpdate, 0, stream, uint32(increment));
  }

  #add(length: number, type: number, flagBits: number, stream: number, payload: string): void {
    const [a, b, c] = [length >>> 16, (length >>> 8) & 0xff, length & 0xff];
    const [d, e, f, g] = [stream >>> 24, (stream >>> 16) & 0xff, (stream >>> 8) & 0xff, stream & 0xff];
    const head = String.fromCharCode(a, b, c, type, flagBits, d, e, f, g);
    this.sentBytes += head.length + payload.length;
    this.#text += head + payload;
  }

  #endText(): void {
    if (this.#text === "") return;
    this.#push(this.#text);
    this.#text = "";
  }

  #push(piece: Piece): void {
    if (this.#pieces === null) this.#pieces = [piece];
    else this.#pieces.push(piece);
  }
}

const none: readonly Piece[] = [];

function uint32(value: number): string {
  return uint16(value >>> 16) + uint16(value & 0xffff);
}

function uint16(value: number): string {
  return String.fromCharCode((value >>> 8) & 0xff, value & 0xff);
}
