// One connection of a gRPC caller: it ends with a GOAWAY that loses no call, when it has been without a call for too long or
// the server ends, and is closed if the caller does not let go of it then.
import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";

/** How long a caller that has been told of the end may keep its side open. */
const lingerMs = 2_000;

export class GrpcConnection {
  readonly #session: ServerHttp2Session;
  /** It outlives a session that was closed, for as long as the caller keeps its side open. */
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
