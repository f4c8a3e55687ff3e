// Readers of a request's body: one of the test's own, and the one that sends it to the upstream. Both pause at random.
import type { Readable } from "node:stream";
import type { PushedBody } from "../../../src/exchange/transport.ts";
import type { BodySink } from "../../../src/upstream/outbound-connection.ts";
import { RequestBody } from "../../../src/upstream/request-body.ts";
import { type Draw, Receipt } from "./drawn.ts";

/** Reads a body. `act`: something happens that may make it pause, or go on. */
export interface Reading {
  readonly receipt: Receipt;
  act(): void;
  /** Reads on if it has paused. */
  goOn(): void;
  end(): void;
}

/** A reader that does at random, while it is given bytes, what readers do: pauses, goes on, pauses or destroys another body. */
export function readDirectly(draw: Draw, body: PushedBody, content: Buffer, disturb: () => void): Reading {
  const receipt = new Receipt(content);
  let isPaused = true;
  const pause = (): void => {
    isPaused = true;
    body.pause();
  };
  const goOn = (): void => {
    if (receipt.isEnded) return;
    isPaused = false;
    body.resume();
  };
  const act = (): void => {
    if (!receipt.isEnded) draw.pick([pause, goOn, () => {}])();
  };
  body.reader = {
    onData(bytes, _, isLast) {
      if (isPaused) receipt.fault ??= "a piece came to a reader that had paused";
      receipt.take(bytes);
      if (isLast) receipt.end();
      act();
      if (draw.isOneIn(8)) disturb();
    },
    onEnd: () => receipt.end(),
  };
  return { receipt, act, goOn, end: () => {} };
}

/** The body as the upstream gets it, whose socket takes no more at random. At first it waits for a connection, or does not. */
export function forward(draw: Draw, source: PushedBody | Readable, content: Buffer): Reading {
  const receipt = new Receipt(content);
  let [nowMs, keptBytes] = [0, 0];
  let [isWaiting, isStarted] = [false, false];
  let unasked = 0;
  const sink: BodySink = {
    sendPiece(_, bytes) {
      receipt.take(bytes);
      // Behind small pieces that were joined, a large one comes with them.
      if (isWaiting && ++unasked > 1) receipt.fault ??= "pieces came while the upstream took no more";
      isWaiting ||= draw.isOneIn(3);
      return !isWaiting;
    },
    endBody(_, last) {
      receipt.take(last);
      receipt.end();
    },
  };
  const cancel = (): void => {
    receipt.fault ??= "the body was refused";
  };
  const options = {
    maxBodyBytes: content.length,
    bodyTimeoutMs: 2 ** 30,
    bodyBytesPerSecond: 4096,
    nowMs: () => (nowMs += 100),
  };
  const body = new RequestBody(source, options, { cancel });
  const start = (): void => {
    isStarted = true;
    const whole = draw.isOneIn(2) ? body.takeWhole() : null;
    if (whole === null) body.start(sink);
    else sink.endBody(body, whole);
  };
  let isReady = true;
  const onBodyMemory = (bytes: number): boolean => {
    keptBytes += bytes;
    return !draw.isOneIn(4);
  };
  const onBodyReady = (): void => {
    isReady = true;
    if (draw.isOneIn(2)) start();
  };
  if (draw.isOneIn(2)) start();
  else {
    isReady = false;
    body.gather({ onBodyMemory, onBodyReady });
  }
  let isOver = false;
  const goOn = (): void => {
    if (isOver) return;
    if (isReady && !isStarted) start();
    isWaiting = false;
    unasked = 0;
    // A connection whose request is over does not ask for more.
    if (isStarted && !receipt.isEnded) body.resume();
  };
  const act = (): void => {
    if (draw.isOneIn(2)) goOn();
  };
  const end = (): void => {
    isOver = true;
    body.stop();
    if (keptBytes !== 0) receipt.fault ??= `${keptBytes} bytes of memory were not given back`;
  };
  return { receipt, act, goOn, end };
}
