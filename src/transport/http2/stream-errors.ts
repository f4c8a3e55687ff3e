// Keeps a connection open after an error of one stream (RFC 9113, 8.1.1). nghttp2 resets a stream whose body is longer
// than its content-length. Since version 1.70 (Node 26) it also reports the frame to Node with the code of a connection
// error, and Node destroys the session with all streams, which may belong to other clients behind the same proxy. So
// the error is held until it is known whether nghttp2 reset a stream for it. For a connection error, nghttp2 has sent a
// GOAWAY itself.
import { constants, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";

/** NGHTTP2_ERR_PROTO, which node:http2 has no name for. */
const protocolErrno = -505;

/** While the client reads too slowly for the reset to be sent. */
const recheckMs = 50;
const maxRechecks = 40;

/** `open` always holds the open streams of `session`. */
export function keepSessionOnStreamErrors(
  session: ServerHttp2Session,
  open: ReadonlyMap<ServerHttp2Stream, unknown>,
): void {
  const destroy = session.destroy.bind(session);
  const hold = (error: Error, code: number | undefined): void => {
    // A stream that the client itself reset has its code by now.
    const suspects = [...open.keys()].filter(({ rstCode }) => rstCode === constants.NGHTTP2_NO_ERROR);
    // Node emits the streams of a packet only after nghttp2 has read all of the packet.
    const addSuspect = (stream: ServerHttp2Stream): void => void suspects.push(stream);
    session.on("stream", addSuspect);
    let rechecks = 0;
    const check = (): void => {
      session.off("stream", addSuspect);
      if (session.destroyed || suspects.some(wasReset)) return;
      const isWaiting = (session.state.outboundQueueSize ?? 0) > 0;
      rechecks += 1;
      if (isWaiting && rechecks <= maxRechecks) setTimeout(check, recheckMs);
      else destroy(error, code);
    };
    // nghttp2 sends after it has read the whole packet.
    setImmediate(check);
  };
  // Node's parser calls this method by its name. If that changes, such an error ends the connection again.
  session.destroy = (error, code) => {
    const isDoubtful = error instanceof Error && "errno" in error && error.errno === protocolErrno;
    if (isDoubtful) hold(error, code);
    else destroy(error, code);
  };
}

const wasReset = ({ rstCode }: ServerHttp2Stream): boolean => rstCode === constants.NGHTTP2_PROTOCOL_ERROR;
