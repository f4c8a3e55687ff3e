// How connections to the upstream are opened: in time, or not at all.
import { connect, type Socket, type TcpNetConnectOpts } from "node:net";

export class ConnectTimeout extends Error {
  readonly code = "UPSTREAM_CONNECT_TIMEOUT";

  constructor() {
    super("The upstream did not accept a connection in time.");
  }
}

export interface ConnectorOptions extends TcpNetConnectOpts {
  readonly timeoutMs: number;
}

type Ready = (error: Error | null, socket: Socket | null) => void;

export function createConnector({ timeoutMs, ...options }: ConnectorOptions): (ready: Ready) => () => void {
  return (ready) => {
    const socket = connect({ noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000, ...options });
    const settle = (error: Error | null): void => {
      clearTimeout(timer);
      socket.off("connect", onConnect).off("error", settle);
      if (error === null) ready(null, socket);
      else {
        socket.on("error", ignore).destroy();
        ready(error, null);
      }
    };
    const onConnect = (): void => settle(null);
    const timer = setTimeout(() => settle(new ConnectTimeout()), timeoutMs);
    socket.once("connect", onConnect).once("error", settle);
    return () => {
      clearTimeout(timer);
      socket.off("connect", onConnect).off("error", settle);
      socket.on("error", ignore).destroy();
    };
  };
}

function ignore(): void {}
