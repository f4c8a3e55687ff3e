// Reads the settings of a client (RFC 9113, 6.5.2). Only one of them changes what a server without a dynamic table and
// without pushes sends: the initial window of streams.
import { errorCodes, largestMaxFrameBytes, maxFrameBytes, maxWindowBytes, settingIds } from "./protocol.ts";

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
