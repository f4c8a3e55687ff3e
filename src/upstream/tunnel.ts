// Joins two sockets: bytes pass in order and unchanged, each direction as fast as its reader takes them. An end in one
// direction is passed on while the other direction goes on; if one side breaks, both are closed. The bytes are not
// looked at.
import type { Socket } from "node:net";
import type { TunnelEnd, TunnelEndReason } from "../core/connection-ends.ts";
import { ignoreError } from "../core/failure.ts";
import type { Reclaimable } from "./client-shares.ts";

export interface TunnelOptions {
  /** The longest time without a byte in either direction. */
  readonly idleTimeoutMs: number;
  readonly nowMs: () => number;
  /** Called before the sockets are closed because another client needs a tunnel. */
  readonly onClosing: () => void;
  /** Called once, when both sockets are closed. */
  readonly onEnd: (end: Omit<TunnelEnd, "id">) => void;
}

export class Tunnel implements Reclaimable {
  readonly #sockets: readonly [client: Socket, upstream: Socket];
  readonly #options: TunnelOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #startedMs: number;
  #movedMs: number;
  readonly #bytes = { client: 0, upstream: 0 };
  /** The first thing that happened; what comes later is its consequence. */
  #reason: TunnelEndReason | null = null;
  #closed = 0;

  constructor(client: Socket, upstream: Socket, options: TunnelOptions) {
    this.#sockets = [client, upstream];
    this.#options = options;
    this.#startedMs = options.nowMs();
    this.#movedMs = this.#startedMs;
    this.#timer = setTimeout(() => {
      this.#reason ??= "idle";
      this.destroy();
    }, options.idleTimeoutMs);
  }

  /** `early` goes to the upstream before anything else of the client's. */
  start(early: readonly Buffer[]): void {
    const [client, upstream] = this.#sockets;
    for (const socket of this.#sockets) {
      socket.allowHalfOpen = true;
      // The tunnel has an idle timer of its own; one that was set for HTTP no longer applies.
      socket.setTimeout(0);
      socket.setNoDelay(true);
      socket.on("error", ignoreError);
      socket.once("close", this.#onClose);
    }
    for (const bytes of early) {
      this.#bytes.client += bytes.length;
      upstream.write(bytes);
    }
    this.#carry("client", client, upstream);
    this.#carry("upstream", upstream, client);
    // One side may have closed since the 101.
    if (client.destroyed || upstream.destroyed) this.destroy();
  }

  idleMs(): number {
    return this.#options.nowMs() - this.#movedMs;
  }

  onShareExceeded(): void {
    this.#reason ??= "over_share";
    this.#options.onClosing();
    this.destroy();
  }

  tokenEnded(): void {
    this.#reason ??= "token_ended";
    this.destroy();
  }

  destroy(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #carry(side: "client" | "upstream", from: Socket, to: Socket): void {
    from.on("data", (bytes: Buffer) => {
      this.#bytes[side] += bytes.length;
      this.#movedMs = this.#options.nowMs();
      this.#timer.refresh();
      if (!to.write(bytes)) from.pause();
    });
    to.on("drain", () => {
      this.#timer.refresh();
      from.resume();
    });
    from.on("end", () => {
      this.#reason ??= `${side}_closed`;
      to.end();
    });
    // A socket that closes first without an end or an error was closed by the gateway, which is stopping.
    from.once("close", () => {
      this.#reason ??= from.errored === null ? "drain" : `${side}_broken`;
    });
    if (to.writableNeedDrain) from.pause();
    else from.resume();
  }

  readonly #onClose = (): void => {
    this.#closed += 1;
    const [client, upstream] = this.#sockets;
    if (this.#closed < 2) {
      this.#endOther(client.destroyed ? upstream : client, client.destroyed ? client : upstream);
      return;
    }
    clearTimeout(this.#timer);
    const { client: clientBytes, upstream: upstreamBytes } = this.#bytes;
    const durationMs = Math.round(this.#options.nowMs() - this.#startedMs);
    this.#options.onEnd({ reason: this.#reason ?? "drain", durationMs, clientBytes, upstreamBytes });
  };

  /**
   * A socket closes by itself after both directions have ended; its last bytes may still be on their way to the other.
   */
  #endOther(other: Socket, closed: Socket): void {
    if (closed.readableEnded && closed.writableFinished) other.end();
    else other.destroy();
  }
}
