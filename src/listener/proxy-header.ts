// Reads the header of the PROXY protocol, versions 1 and 2 (haproxy.org, proxy-protocol.txt), with which each connection
// begins if `listen.proxyProtocol` is set: it names the client of a connection that a load balancer opened. Bounded in
// bytes and in time. Accepts nothing that deviates from the protocol; the codec gets the bytes after it unchanged. The
// first bytes are read here for TLS as well (`readFirstBytes`).
import type { Socket } from "node:net";
import type { ProxyHeaderRefusal } from "../core/connection-ends.ts";
import { ignoreError } from "../core/failure.ts";
import { formatIpAddress, parseIpAddress } from "../core/ip-address.ts";

interface ProxyHeaderHandlers {
  /** The socket is paused. */
  readonly onHeader: (header: CompleteProxyHeader) => void;
  /** The connection is closed. */
  readonly onRefused: (reason: ProxyHeaderRefusal) => void;
}

export function takeProxyHeader(socket: Socket, timeoutMs: number, { onHeader, onRefused }: ProxyHeaderHandlers): void {
  readFirstBytes(socket, timeoutMs, {
    onBytes(received) {
      const header = readProxyHeader(received);
      if (header.kind === "incomplete") return null;
      if (header.kind === "complete") return { taken: header.byteCount, next: () => onHeader(header) };
      const refuse = (): void => {
        onRefused("invalid");
        socket.destroy();
      };
      return { taken: 0, next: refuse };
    },
    onTimeout: () => onRefused("timeout"),
    onClose(receivedBytes) {
      // A balancer that only checks whether the port is open sends nothing, which is no error.
      if (receivedBytes > 0) onRefused("incomplete");
    },
  });
}

export type ProxyHeader = { readonly kind: "incomplete" } | { readonly kind: "invalid" } | CompleteProxyHeader;

export interface CompleteProxyHeader {
  readonly kind: "complete";
  /** Length of the header. */
  readonly byteCount: number;
  /** The address in the header; null if the header names no client, so that the address of the socket applies. */
  readonly source: string | null;
}

/** Version 1, with its CRLF. */
const maxLineBytes = 107;
const binaryHeadBytes = 16;
/** Addresses and TLVs of version 2. The length field allows 64 KiB; balancers send a few hundred bytes. */
const maxBinaryBodyBytes = 4096;

const signature1 = bytesOf("PROXY ");
const signature2 = bytesOf("\r\n\r\n\0\r\nQUIT\n");

const incomplete: ProxyHeader = { kind: "incomplete" };
const invalid: ProxyHeader = { kind: "invalid" };

/** Takes the bytes received so far: more bytes never change a result other than "incomplete". */
export function readProxyHeader(bytes: Uint8Array): ProxyHeader {
  if (bytes.length === 0) return incomplete;
  return bytes[0] === signature2[0] ? readBinary(bytes) : readLine(bytes);
}

function readLine(bytes: Uint8Array): ProxyHeader {
  if (!beginsWith(bytes, signature1)) return invalid;
  const end = bytes.subarray(0, maxLineBytes).indexOf(0x0a);
  if (end === -1) return bytes.length < maxLineBytes ? incomplete : invalid;
  const source = readLineSource(String.fromCharCode(...bytes.subarray(0, end + 1)));
  return source === undefined ? invalid : { kind: "complete", byteCount: end + 1, source };
}

function readLineSource(line: string): string | null | undefined {
  // The protocol demands to ignore what follows UNKNOWN.
  if (/^PROXY UNKNOWN(?: [^\r]*)?\r\n$/.test(line)) return null;
  const match = /^PROXY TCP([46]) ([0-9A-Fa-f:.]+) ([0-9A-Fa-f:.]+) (\d{1,5}) (\d{1,5})\r\n$/.exec(line);
  const [, family, source = "", destination = "", ...ports] = match ?? [];
  if (family === undefined) return undefined;
  for (const address of [source, destination]) {
    if (address.includes(":") !== (family === "6") || parseIpAddress(address) === undefined) return undefined;
  }
  return ports.every((port) => String(Number(port)) === port && Number(port) <= 65535) ? source : undefined;
}

function readBinary(bytes: Uint8Array): ProxyHeader {
  if (!beginsWith(bytes, signature2)) return invalid;
  const [version = 0x21, protocol = 0x00, high = 0, low = 0] = bytes.subarray(signature2.length, binaryHeadBytes);
  if (version !== 0x20 && version !== 0x21) return invalid;
  // A LOCAL connection is a health check by the balancer itself; its addresses are ignored.
  const addressBytes = version === 0x20 ? 0 : addressBytesOf(protocol);
  const bodyBytes = high * 256 + low;
  if (addressBytes === undefined || bodyBytes > maxBinaryBodyBytes) return invalid;
  if (bytes.length < binaryHeadBytes) return incomplete;
  if (bodyBytes < addressBytes) return invalid;
  if (bytes.length < binaryHeadBytes + bodyBytes) return incomplete;
  const body = bytes.subarray(binaryHeadBytes, binaryHeadBytes + bodyBytes);
  const source = version === 0x20 ? null : readBinarySource(protocol, body);
  return { kind: "complete", byteCount: binaryHeadBytes + bodyBytes, source };
}

/**
 * Returns undefined for a refused protocol: datagrams, which carry no HTTP/1, and values that the protocol reserves.
 */
function addressBytesOf(protocol: number): number | undefined {
  switch (protocol) {
    case 0x00: // unspecified: may be accepted with the addresses of the socket, as UNKNOWN in version 1
      return 0;
    case 0x11: // TCP over IPv4
      return 12;
    case 0x21: // TCP over IPv6
      return 36;
    case 0x31: // a UNIX stream, which has no IP address
      return 216;
    default:
      return undefined;
  }
}

function readBinarySource(protocol: number, body: Uint8Array): string | null {
  if (protocol === 0x11) return body.subarray(0, 4).join(".");
  if (protocol !== 0x21) return null;
  const groups = Array.from({ length: 8 }, (_, i) => (body[2 * i] ?? 0) * 256 + (body[2 * i + 1] ?? 0));
  return formatIpAddress(groups);
}

/** Also returns true if the bytes end inside the signature. */
function beginsWith(bytes: Uint8Array, signature: Uint8Array): boolean {
  const length = Math.min(bytes.length, signature.length);
  for (let i = 0; i < length; i += 1) if (bytes[i] !== signature[i]) return false;
  return true;
}

function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}

interface FirstBytesHandlers {
  /** Receives all bytes so far. Returns null to wait for more, else how many bytes to take and what to do next. */
  readonly onBytes: (received: Buffer) => { readonly taken: number; readonly next: () => void } | null;
  /** The connection is closed afterwards. */
  readonly onTimeout: () => void;
  /** The client closed the connection first. */
  readonly onClose: (receivedBytes: number) => void;
}

/**
 * Reads the first bytes of a connection within a timeout, before TLS or HTTP reads the socket. Bytes that are not taken
 * stay in the socket, which is then paused.
 */
export function readFirstBytes(socket: Socket, timeoutMs: number, handlers: FirstBytesHandlers): void {
  let received: Buffer = Buffer.alloc(0);
  const stop = (): void => {
    clearTimeout(timer);
    socket.off("data", onData).off("end", onEnd).off("close", onClose);
  };
  const onData = (data: Buffer): void => {
    received = received.length === 0 ? data : Buffer.concat([received, data]);
    const step = handlers.onBytes(received);
    if (step === null) return;
    stop();
    // Without a listener, flowing data would be lost.
    socket.pause();
    const rest = received.subarray(step.taken);
    if (rest.length > 0) socket.unshift(rest);
    step.next();
  };
  // The server keeps half-closed connections open, because HTTP allows them.
  const onEnd = (): void => void socket.destroy();
  const onClose = (): void => {
    stop();
    handlers.onClose(received.length);
  };
  const timer = setTimeout(() => {
    stop();
    handlers.onTimeout();
    socket.destroy();
  }, timeoutMs);
  socket.on("error", ignoreError);
  socket.on("data", onData).on("end", onEnd).on("close", onClose);
}
