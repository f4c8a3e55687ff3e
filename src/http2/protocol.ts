// The numbers of HTTP/2 (RFC 9113): types and flags of frames, error codes, settings and how they are read, and the
// sizes that both sides begin with.

export const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
export const frameHeadBytes = 9;

/** Section 6. Frames of other types are ignored. */
export const frameTypes = {
  data: 0x0,
  headers: 0x1,
  priority: 0x2,
  rstStream: 0x3,
  settings: 0x4,
  pushPromise: 0x5,
  ping: 0x6,
  goaway: 0x7,
  windowUpdate: 0x8,
  continuation: 0x9,
} as const;

export const flags = { endStream: 0x1, ack: 0x1, endHeaders: 0x4, padded: 0x8, priority: 0x20 } as const;

/** Section 7. */
export const errorCodes = {
  noError: 0x0,
  protocol: 0x1,
  internal: 0x2,
  flowControl: 0x3,
  streamClosed: 0x5,
  frameSize: 0x6,
  refusedStream: 0x7,
  cancel: 0x8,
  compression: 0x9,
  enhanceYourCalm: 0xb,
} as const;

/** Section 6.5.2. */
export const settingIds = {
  headerTableSize: 0x1,
  enablePush: 0x2,
  maxConcurrentStreams: 0x3,
  initialWindowSize: 0x4,
  maxFrameSize: 0x5,
  maxHeaderListSize: 0x6,
} as const;

/** SETTINGS_MAX_FRAME_SIZE: our own stays at its default, and no peer may ask for less. */
export const maxFrameBytes = 16_384;
const largestMaxFrameBytes = 2 ** 24 - 1;
/** SETTINGS_INITIAL_WINDOW_SIZE, and the window of a connection. */
export const defaultWindowBytes = 65_535;
export const maxWindowBytes = 2 ** 31 - 1;
export const maxStreamId = 2 ** 31 - 1;

// Reads the settings of a client (RFC 9113, 6.5.2). Only one of them changes what a server without a dynamic table and
// without pushes sends: the initial window of streams.

interface ClientSettings {
  /** Null: it stays as it was. */
  readonly initialWindowBytes: number | null;
}

/** Returns the code of the connection error if a value is not allowed. The last of several values counts. */
export function readSettings(bytes: Buffer, from: number, to: number): ClientSettings | number {
  let initialWindowBytes: number | null = null;
  for (let at = from; at < to; at += 6) {
    const value = bytes.readUInt32BE(at + 2);
    switch (bytes.readUInt16BE(at)) {
      case settingIds.enablePush:
        if (value > 1) return errorCodes.protocol;
        break;
      case settingIds.initialWindowSize:
        if (value > maxWindowBytes) return errorCodes.flowControl;
        initialWindowBytes = value;
        break;
      case settingIds.maxFrameSize:
        // No larger frames are sent than every client takes.
        if (value < maxFrameBytes || value > largestMaxFrameBytes) return errorCodes.protocol;
        break;
      default:
    }
  }
  return { initialWindowBytes };
}
