// Keeps a connection whose client broke the rules on one stream only (RFC 9113, 8.1.1). nghttp2 resets the stream of a
// body that is longer than its content-length. Since version 1.70 (Node 26) it also reports the frame to Node, by the
// code of an error of the connection, and Node then destroys the session with the streams of everybody else behind the
// same proxy. So such an error waits until it shows whether nghttp2 has reset a stream for it. If it is one of the
// connection, nghttp2 has said so by a GOAWAY of its own.
import { constants, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";

/** NGHTTP2_ERR_PROTO, which node:http2 has no name for. */
const protocolErrno = -505;

/** While the client reads too slowly for the reset to leave. */
const recheckMs = 50;
const maxRechecks = 40;

/** `open`: the streams of `session` that are open, now and later. */
export function keepSessionOnStreamErrors(
  session: ServerHttp2Session,
  open: ReadonlyMap<ServerHttp2Stream, unknown>,
): void {
  const destroy = session.destroy.bind(session);
  const hold = (error: Error, code: number | undefined): void => {
    // A stream that the client has reset itself has its code by now.
    const suspects = [...open.keys()].filter(({ rstCode }) => rstCode === constants.NGHTTP2_NO_ERROR);
    let rechecks = 0;
    const check = (): void => {
      if (session.destroyed || suspects.some(wasReset)) return;
      const isWaiting = (session.state.outboundQueueSize ?? 0) > 0;
      rechecks += 1;
      if (isWaiting && rechecks <= maxRechecks) setTimeout(check, recheckMs);
      else destroy(error, code);
    };
    // What nghttp2 has to send leaves when it has read the packet.
    setImmediate(check);
  };
  // Node's parser calls it by its name. If that ever changes, such an error ends the connection again.
  session.destroy = (error, code) => {
    const isDoubtful = error instanceof Error && "errno" in error && error.errno === protocolErrno;
    if (isDoubtful) hold(error, code);
    else destroy(error, code);
  };
}

const wasReset = ({ rstCode }: ServerHttp2Stream): boolean => rstCode === constants.NGHTTP2_PROTOCOL_ERROR;
