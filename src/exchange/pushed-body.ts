// The body of a request that passes its pieces to one reader, without the events and the buffers of a stream.

export interface PushedBody {
  /** Set by who reads the body, before it calls `resume`. */
  reader: BodyReader | null;
  /** It will not be complete. */
  readonly destroyed: boolean;
  /** It is paused at first. */
  pause(): void;
  resume(): void;
}

export interface BodyReader {
  /**
   * The bytes are overwritten after the call: what is kept has to be copied. `progressBytes`: what counts for the minimum
   * rate. `isLast`: the body is complete with these.
   */
  onData(bytes: Buffer, progressBytes: number, isLast: boolean): void;
  /** The body was complete without further bytes. */
  onEnd(): void;
}
