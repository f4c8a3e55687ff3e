// Closed streams whose client still sends a request that has been answered. It is told to stop by a reset (RFC 9113, 8.1), but
// not at once: a client that reads a response and its reset together may lose the response. So the reset leaves some time after
// the client has acknowledged a PING behind the response.
import { lingerSilenceMs } from "../core/http-bounds.ts";

/** How often `due` has to be called. */
export const checkAnsweredMs = 250;

/** What the checks need of a stream, and find. */
interface Checked {
  readonly receiveWindow: number;
  checkedBytes: number;
  checks: number;
  answeredChecks: number;
  readonly isAnswerRead: boolean;
  readonly isTooSlow: boolean;
}

export class AnsweredStreams<Stream extends Checked> extends Map<number, Stream> {
  override set(id: number, stream: Stream): this {
    // The first check may come at once.
    stream.checks = -1;
    stream.checkedBytes = stream.receiveWindow;
    return super.set(id, stream);
  }

  /**
   * Returns the streams to be reset. A client whose window is used up can only wait for the reset; one that sends is waited for, at
   * most for `lingerMs`, unless `isInHurry`.
   */
  due(lingerMs: number, isInHurry: boolean): Stream[] {
    return [...this.values()].filter((stream) => {
      const hasMoved = stream.checkedBytes !== stream.receiveWindow && !isInHurry;
      stream.checkedBytes = stream.receiveWindow;
      stream.checks = hasMoved ? 0 : stream.checks + 1;
      stream.answeredChecks += 1;
      const isShort = isInHurry || stream.receiveWindow <= 0 || stream.isTooSlow;
      const waitMs = isShort ? checkAnsweredMs : lingerSilenceMs;
      const isDue = (isInHurry || stream.isAnswerRead) && stream.checks * checkAnsweredMs >= waitMs;
      return isDue || stream.answeredChecks * checkAnsweredMs >= lingerMs;
    });
  }
}
