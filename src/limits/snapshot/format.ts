// How a snapshot of the counters stands in a file. It depends on neither the layout nor the size of the table. All
// numbers are little-endian.
//
//   file          | magic: 8 bytes | version: 4 | section | section | … |
//   section       | kind: 1 byte, 3 zero | length of its content: 4 | checksum: 4 | content |
//   sections      any number of records · one description · one end, after which nothing follows
//   records       | record | record | … |
//   record        | slot: 1 | kind: bits 0–1, is an address: bit 7 | 2 zero | pairs: 4 | key: 16 | pair | pair | … |
//   pair          | instant: 4 | units: 4 |, the oldest first
//   description   JSON, see description.ts
//   end           | number of records: 8 | SHA-256 of everything before this section: 32 |
//
// The checksum of a section is the CRC-32 of its kind, its length and its content. The description follows the records
// because it tells the instant to which they all belong, which is after the last of them was copied.
import { crc32 } from "node:zlib";

export const magic = Buffer.from("HGCOUNTS", "latin1");
export const version = 1;
export const fileHeaderBytes = magic.length + 4;

export const sections = { records: 1, description: 2, end: 3 } as const;
export const sectionHeaderBytes = 12;
/** A longer one is no section. */
export const maxContentBytes = 1024 * 1024;
export const endBytes = 40;

export const recordHeaderBytes = 24;
export const pairBytes = 8;
export const recordKinds = ["own", "client", "network"] as const;
export const addressBit = 0x80;

export function fileHeader(): Buffer {
  const header = Buffer.alloc(fileHeaderBytes);
  magic.copy(header);
  header.writeUInt32LE(version, magic.length);
  return header;
}

/** Writes the header of a section whose content follows it in `section`. */
export function finishSection(section: Buffer, kind: number): Buffer {
  section.fill(0, 0, sectionHeaderBytes);
  section[0] = kind;
  section.writeUInt32LE(section.length - sectionHeaderBytes, 4);
  section.writeUInt32LE(checksumOf(section), 8);
  return section;
}

/** The checksum that the section must have. */
export function checksumOf(section: Buffer): number {
  return crc32(section.subarray(sectionHeaderBytes), crc32(section.subarray(0, 8)));
}
