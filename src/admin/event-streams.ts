// Sends events to those who listen (server-sent events). Bounds the number of streams, and the unread bytes of each: a reader
// that is too slow loses its connection. A drain ends all streams.
import type { ServerResponse } from "node:http";
import { clientShare } from "../core/client-share.ts";
import type { ControlEvent, EventFeed } from "./control-plane.ts";

export const maxStreams = 16;

/** A stream whose reader leaves so much unread is ended. */
export const maxUnreadBytes = 64 * 1024;

/** Proxies end connections on which nothing moves, and a reader that is gone is noticed by a write. */
export const keptAliveEveryMs = 15_000;

export class EventStreams {
  readonly #plane: EventFeed;
  /** With their peers. */
  readonly #streams = new Map<ServerResponse, string>();
  #unsubscribe: (() => void) | null = null;
  #timer: NodeJS.Timeout | null = null;
  #lastId = 0;

  constructor(plane: EventFeed) {
    this.#plane = plane;
  }

  /** Whether the peer may have one more: it gets no more than are free. */
  hasRoom(peer: string): boolean {
    const held = [...this.#streams.values()].filter((each) => each === peer).length;
    return held < clientShare(maxStreams - this.#streams.size, maxStreams);
  }

  /** Begins a stream, whose head has not been sent. The caller has asked `hasRoom`. */
  open(response: ServerResponse, peer: string, fields: Readonly<Record<string, string>>): void {
    response.writeHead(200, { ...fields, "content-type": "text/event-stream", connection: "close" });
    response.flushHeaders();
    this.#streams.set(response, peer);
    response.once("close", () => this.#closed(response));
    this.#unsubscribe ??= this.#plane.subscribe((event) => this.#send(event));
    this.#timer ??= setInterval(() => this.#write(": kept alive\n\n"), keptAliveEveryMs).unref();
    this.#write(": connected\n\n", [response]);
  }

  endAll(): void {
    for (const response of this.#streams.keys()) response.end();
  }

  #send(event: ControlEvent): void {
    this.#lastId += 1;
    this.#write(`id: ${this.#lastId}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    if (event.type === "drain") this.endAll();
  }

  #write(text: string, to: Iterable<ServerResponse> = this.#streams.keys()): void {
    for (const response of to) {
      if (response.writableEnded) continue;
      if (response.writableLength + text.length > maxUnreadBytes) response.destroy();
      else response.write(text);
    }
  }

  #closed(response: ServerResponse): void {
    this.#streams.delete(response);
    if (this.#streams.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = null;
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }
}
