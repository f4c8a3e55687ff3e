// Reads the header of the PROXY protocol, versions 1 and 2 (haproxy.org, proxy-protocol.txt), with which each connection
// begins if `listen.proxyProtocol` is set: it names the client of a connection that a load balancer opened. Bounded in
// bytes and in time. Of the header only the source is used, and whether the client came by TLS; a part that is not used
// refuses no connection as long as it is known where the header ends. The codec gets the bytes after it unchanged. The
// first bytes are read here for TLS as well (`readFirstBytes`).
import type { Socket } from "node:net";
import type { ProxyHeaderRefusal } from "../core/connection-ends.ts";
import { ignoreError } from "../core/failure.ts";
import { formatIpAddress, parseIpAddress } from "../core/ip-address.ts";
import type { Scheme } from "../core/settings.ts";

interface ProxyHeaderHandlers {
  /** The socket is paused. */
  readonly onHeader: (header: CompleteProxyHeader) => void;
  /** The connection is closed. */
  readonly onRefused: (reason: ProxyHeaderRefusal) => void;
}

export function takeProxyHeader(socket: Socket, timeoutMs: number, { onHeader, onRefused }: ProxyHeaderHandlers): void {
  const reader = new ProxyHeaderReader();
  const refuse = (): void => {
    onRefused("invalid");
    socket.destroy();
  };
  readFirstBytes(socket, timeoutMs, {
    onBytes(unread) {
      const header = reader.read(unread);
      if (header.kind === "invalid") return { taken: 0, next: refuse };
      return { taken: header.taken, next: header.kind === "complete" ? () => onHeader(header) : null };
    },
    onTimeout: () => onRefused("timeout"),
    onClose() {
      // A balancer that only checks whether the port is open sends nothing, which is no error.
      if (socket.bytesRead > 0) onRefused("incomplete");
    },
  });
}

/** `taken`: how many bytes are read; the bytes behind them must be given again, with more. */
export type ProxyHeader =
  | { readonly kind: "incomplete"; readonly taken: number }
  | { readonly kind: "invalid" }
  | CompleteProxyHeader;

export interface CompleteProxyHeader {
  readonly kind: "complete";
  /** How many bytes belong to the header. */
  readonly taken: number;
  /** The address in the header; null if the header names no client, so that the address of the socket applies. */
  readonly source: string | null;
  /** Of the client's connection to the balancer; null: the header does not say. */
  readonly scheme: Scheme | null;
}

/** Version 1, with its CRLF. */
const maxLineBytes = 107;
const binaryHeadBytes = 16;

const signature1 = Buffer.from("PROXY ");
const signature2 = Buffer.from("\r\n\r\n\0\r\nQUIT\n");

/** By protocol. Others are refused: datagrams, which carry no HTTP/1, and values that are reserved. */
const addressSizes: ReadonlyMap<number, number> = new Map([
  [0x00, 0], // unspecified: may be accepted with the addresses of the socket, as UNKNOWN in version 1
  [0x11, 12], // TCP over IPv4
  [0x21, 36], // TCP over IPv6
  [0x31, 216], // a UNIX stream, which has no IP address
]);

const incomplete: ProxyHeader = { kind: "incomplete", taken: 0 };
const invalid: ProxyHeader = { kind: "invalid" };

/** PP2_TYPE_SSL, whose value begins with the bits PP2_CLIENT_* and has four more bytes at least (2.2.6). */
const tlsType = 0x20;
const minTlsBytes = 5;
const clientTlsBit = 0x01;

/** Reads the header of one connection, however it is cut. Keeps none of its TLVs, which may have 65,535 bytes. */
export class ProxyHeaderReader {
  #source: string | null = null;
  #scheme: Scheme | null = null;
  /** Bytes of TLVs that are not read yet, and how many of them are the rest of one. */
  #left = 0;
  #skip = 0;

  /** `unread`: the bytes that were not taken. More bytes never change a result other than "incomplete". */
  read(unread: Uint8Array): ProxyHeader {
    if (this.#left > 0) return this.#readTlvs(unread, 0);
    if (unread.length === 0) return incomplete;
    return unread[0] === signature2[0] ? this.#readBinary(unread) : readLine(unread);
  }

  #readBinary(bytes: Uint8Array): ProxyHeader {
    if (!beginsWith(bytes, signature2)) return invalid;
    const [version = 0x21, protocol = 0x00, high = 0, low = 0] = bytes.subarray(signature2.length, binaryHeadBytes);
    if (version !== 0x20 && version !== 0x21) return invalid;
    // A LOCAL connection is a health check by the balancer itself; all that follows is ignored.
    const addressBytes = version === 0x20 ? 0 : addressSizes.get(protocol);
    if (addressBytes === undefined) return invalid;
    if (bytes.length < binaryHeadBytes) return incomplete;
    const start = binaryHeadBytes + addressBytes;
    const tlvBytes = high * 256 + low - addressBytes;
    if (tlvBytes < 0) return invalid;
    if (bytes.length < start) return incomplete;
    this.#left = tlvBytes;
    // Without a known family, nobody knows where the addresses end and the TLVs begin.
    if (addressBytes === 0) this.#skip = tlvBytes;
    else this.#source = readBinarySource(protocol, bytes.subarray(binaryHeadBytes));
    return this.#readTlvs(bytes, start);
  }

  /**
   * Looks for the TLV that says whether the client came by TLS. The header's length says where they end, so one that is cut
   * off there misleads nobody about the bytes behind it: it says nothing.
   */
  #readTlvs(bytes: Uint8Array, from: number): ProxyHeader {
    let taken = from;
    while (this.#left > 0 && bytes.length - taken >= Math.min(4, this.#skip || this.#left)) {
      if (this.#skip === 0) this.#skip = this.#beginTlv(bytes, taken);
      const skipped = Math.min(this.#skip, bytes.length - taken);
      this.#skip -= skipped;
      this.#left -= skipped;
      taken += skipped;
    }
    if (this.#left > 0) return { kind: "incomplete", taken };
    return { kind: "complete", taken, source: this.#source, scheme: this.#scheme };
  }

  /** Returns the size of the TLV, as far as it is within the header. */
  #beginTlv(bytes: Uint8Array, at: number): number {
    const length = (bytes[at + 1] ?? 0) * 256 + (bytes[at + 2] ?? 0);
    const isWhole = 3 + length <= this.#left;
    if (bytes[at] === tlsType && length >= minTlsBytes && isWhole) {
      // Of two that differ, the one that says less counts.
      this.#scheme = this.#scheme !== "http" && ((bytes[at + 3] ?? 0) & clientTlsBit) !== 0 ? "https" : "http";
    }
    return isWhole ? 3 + length : this.#left;
  }
}

function readLine(bytes: Uint8Array): ProxyHeader {
  if (!beginsWith(bytes, signature1)) return invalid;
  const end = bytes.subarray(0, maxLineBytes).indexOf(0x0a);
  if (end === -1) return bytes.length < maxLineBytes ? incomplete : invalid;
  const source = readLineSource(String.fromCharCode(...bytes.subarray(0, end + 1)));
  return source === undefined ? invalid : { kind: "complete", taken: end + 1, source, scheme: null };
}

function readLineSource(line: string): string | null | undefined {
  // The protocol demands to ignore what follows UNKNOWN.
  if (/^PROXY UNKNOWN(?: [^\r]*)?\r\n$/.test(line)) return null;
  const match =
    /^PROXY TCP([46]) ([\dA-Fa-f:.]+(?:%[\w.-]+)?) ([\dA-Fa-f:.]+(?:%[\w.-]+)?) (\d{1,5}) (\d{1,5})\r\n$/.exec(line);
  const [, family, source = "", destination = "", ...ports] = match ?? [];
  if (family === undefined || source.includes(":") !== (family === "6")) return undefined;
  // nginx writes the source that it was told, and its own address as the destination, which may be of the other family.
  // stunnel and hitch write the zone of a link-local address.
  if (parseIpAddress(source) === undefined || parseIpAddress(destination) === undefined) return undefined;
  return ports.every((port) => String(Number(port)) === port && Number(port) <= 65535) ? source : undefined;
}

function readBinarySource(protocol: number, body: Uint8Array): string | null {
  if (protocol === 0x11) return body.subarray(0, 4).join(".");
  if (protocol !== 0x21) return null;
  const groups = Array.from({ length: 8 }, (_, i) => (body[2 * i] ?? 0) * 256 + (body[2 * i + 1] ?? 0));
  return formatIpAddress(groups);
}

/** Also returns true if the bytes end inside the signature. */
function beginsWith(bytes: Uint8Array, signature: Buffer): boolean {
  return signature.subarray(0, bytes.length).equals(bytes.subarray(0, signature.length));
}

interface FirstBytesHandlers {
  /**
   * Receives the bytes that it has not taken. Returns how many of them to take, and what to do next; null: wait for more. The
   * bytes that are left then stay in memory.
   */
  readonly onBytes: (unread: Buffer) => { readonly taken: number; readonly next: (() => void) | null };
  /** The connection is closed afterwards. */
  readonly onTimeout: () => void;
  /** The client closed the connection first. */
  readonly onClose: () => void;
}

/**
 * Reads the first bytes of a connection within a timeout, before TLS or HTTP reads the socket. Bytes that are not taken
 * stay in the socket, which is then paused.
 */
export function readFirstBytes(socket: Socket, timeoutMs: number, handlers: FirstBytesHandlers): void {
  let unread: Buffer = nothing;
  const stop = (): void => {
    clearTimeout(timer);
    socket.off("data", onData).off("end", onEnd).off("close", onClose);
  };
  const onData = (data: Buffer): void => {
    const bytes = unread.length === 0 ? data : Buffer.concat([unread, data]);
    const { taken, next } = handlers.onBytes(bytes);
    // An empty part would keep the whole in memory.
    unread = taken === bytes.length ? nothing : bytes.subarray(taken);
    if (next === null) return;
    stop();
    // Without a listener, flowing data would be lost.
    socket.pause();
    if (unread.length > 0) socket.unshift(unread);
    next();
  };
  // The server keeps half-closed connections open, because HTTP allows them.
  const onEnd = (): void => void socket.destroy();
  const onClose = (): void => {
    stop();
    handlers.onClose();
  };
  const timer = setTimeout(() => {
    stop();
    handlers.onTimeout();
    socket.destroy();
  }, timeoutMs);
  socket.on("error", ignoreError);
  socket.on("data", onData).on("end", onEnd).on("close", onClose);
}

const nothing = Buffer.alloc(0);
