// A connection without a network, which notes what is done with it.
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { type Peer, readPeer } from "../../src/core/client-address.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import type { ClientConnection, ConnectionPlace } from "../../src/exchange/connection.ts";

export const fakeRules = { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 } as const;

export class FakeConnection implements ClientConnection {
  readonly events: string[] = [];
  readonly idleTimeoutMs: number;
  activeCount = 0;
  place: ConnectionPlace | null = null;
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;

  constructor(idleTimeoutMs = 60_000, address = "127.0.0.1") {
    this.peer = readPeer(address, fakeRules);
    this.idleTimeoutMs = idleTimeoutMs;
    const socket = Object.assign(new EventEmitter(), {
      remoteAddress: address,
      destroyed: false,
      destroy: () => {
        if (socket.destroyed) return;
        socket.destroyed = true;
        this.#note("closed");
        socket.emit("close");
      },
    });
    this.socket = socket as unknown as Socket;
    this.tcp = this.socket;
  }

  endWhenIdle = (): void => this.#note("ends");
  endIdle = (): void => void this.socket.destroy();
  endStalled = (nowMs: number): void => this.#note(`asked at ${nowMs}`);
  forgetHead = (): void => this.#note("forgets");
  abort = (): void => this.#note("aborted");

  #note(event: string): void {
    this.events.push(event);
  }
}
