// PROXY protocol headers of version 2, right and wrong, byte for byte.

export const signature = "\r\n\r\n\0\r\nQUIT\n";

/** `body`: addresses and TLVs; the length says how long it is. */
export function binaryHeader(versionAndCommand: number, protocol: number, body: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(body.length);
  return Buffer.concat([Buffer.from(signature, "latin1"), Buffer.from([versionAndCommand, protocol]), length, body]);
}

/** Source, destination 198.51.100.1, two ports. */
export function ipv4Block(source: readonly [number, number, number, number]): Buffer {
  return Buffer.from([...source, 198, 51, 100, 1, 0xdc, 4, 1, 0xbb]);
}

/** Source as 32 hexadecimal digits, destination ::1, two ports. */
export function ipv6Block(source: string): Buffer {
  return Buffer.concat([Buffer.from(source, "hex"), Buffer.alloc(15), Buffer.from([1, 0xdc, 4, 1, 0xbb])]);
}

/** A TLV; `length` may say another length than the value has. */
export function tlv(type: number, value: readonly number[], length: number = value.length): Buffer {
  return Buffer.from([type, length >> 8, length & 0xff, ...value]);
}

/** PP2_TYPE_SSL with these bits, the result of a verification, and PP2_SUBTYPE_SSL_VERSION, as hitch and HAProxy write it. */
export function tlsTlv(bits: number): Buffer {
  return tlv(0x20, [bits, 0, 0, 0, 0, ...tlv(0x21, [...Buffer.from("TLSv1.3")])]);
}
