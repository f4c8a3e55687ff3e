// One connection of a gRPC caller. When it has been idle for too long, or the server drains, it ends with a GOAWAY that loses
// no call; if the caller then keeps it open, it is closed.
import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";

/** How long a caller may keep the connection open after the GOAWAY and its last call. */
const lingerMs = 2_000;

export class GrpcConnection {
  readonly #session: ServerHttp2Session;
  /** It stays open after its session was closed, until the caller closes its side. */
  readonly #socket: Socket;
  readonly #idleTimeoutMs: number;
  #open = 0;
  #isLeaving = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(
    { session, socket }: { session: ServerHttp2Session; socket: Socket },
    options: { firstCallTimeoutMs: number; idleTimeoutMs: number },
  ) {
    this.#session = session;
    this.#socket = socket;
    this.#idleTimeoutMs = options.idleTimeoutMs;
    this.#endIn(options.firstCallTimeoutMs);
    socket.once("close", () => this.#stopTimer());
  }

  get activeCount(): number {
    return this.#open;
  }

  callBegan(): void {
    this.#open += 1;
    this.#stopTimer();
  }

  callEnded(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    if (this.#isLeaving || this.#session.destroyed) this.#linger();
    else this.#endIn(this.#idleTimeoutMs);
  }

  endWhenIdle(): void {
    if (this.#isLeaving) return;
    this.#isLeaving = true;
    this.#stopTimer();
    if (!this.#session.destroyed) this.#session.close();
    if (this.#open === 0) this.#linger();
  }

  destroy(): void {
    this.#session.destroy();
    this.#socket.destroy();
  }

  #endIn(timeoutMs: number): void {
    this.#stopTimer();
    if (!this.#socket.destroyed) this.#timer = setTimeout(() => this.endWhenIdle(), timeoutMs);
  }

  #linger(): void {
    this.#stopTimer();
    if (!this.#socket.destroyed) this.#timer = setTimeout(() => this.destroy(), lingerMs);
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
