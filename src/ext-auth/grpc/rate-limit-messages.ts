// The messages of Envoy's rate limit service (envoy/service/ratelimit/v3/rls.proto). Field numbers are those of the public
// definition. What a request asks for and the gateway does not do is kept, so that it can be refused.
import type { HeaderList } from "../../core/headers.ts";
import type { Rate } from "../../core/policy.ts";
import { bytesTag, messageField, numberField, ProtobufReader, textField, varintTag } from "./protobuf.ts";

export interface RateLimitRequest {
  readonly domain: string;
  readonly descriptors: readonly Descriptor[];
  /** 0 if it is absent, which means 1. */
  readonly hitsAddend: number;
}

export interface Descriptor {
  readonly entries: readonly { readonly key: string; readonly value: string }[];
  /** It carries its own limit. */
  readonly hasOverride: boolean;
  /** Its own number of hits; null: that of the request. */
  readonly hits: number | null;
}

/** Undefined if the bytes are no valid message. */
export function readRateLimitRequest(bytes: Buffer): RateLimitRequest | undefined {
  const reader = new ProtobufReader(bytes);
  const into: Reading = { domain: "", descriptors: [], hitsAddend: 0 };
  for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
    if (tag === bytesTag(1)) into.domain = reader.latin1();
    else if (tag === bytesTag(2)) reader.message(readDescriptor, into);
    else if (tag === varintTag(3)) into.hitsAddend = reader.number();
    else reader.skip();
  }
  return reader.isBroken ? undefined : into;
}

interface Reading {
  domain: string;
  readonly descriptors: Descriptor[];
  hitsAddend: number;
}

function readDescriptor(reader: ProtobufReader, into: Reading): void {
  const entries: Entry[] = [];
  let hasOverride = false;
  const hits: { value: number | null } = { value: null };
  for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
    if (tag === bytesTag(1)) reader.message(readEntry, entries);
    else if (tag === bytesTag(3)) reader.message(readNumber, hits);
    else {
      hasOverride ||= tag === bytesTag(2);
      reader.skip();
    }
  }
  into.descriptors.push({ entries, hasOverride, hits: hits.value });
}

/** A UInt64Value, in which 0 is absent. */
function readNumber(reader: ProtobufReader, into: { value: number | null }): void {
  into.value = 0;
  for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
    if (tag === varintTag(1)) into.value = reader.number();
    else reader.skip();
  }
}

interface Entry {
  key: string;
  value: string;
}

function readEntry(reader: ProtobufReader, into: Entry[]): void {
  const entry = { key: "", value: "" };
  for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
    if (tag === bytesTag(1)) entry.key = reader.latin1();
    else if (tag === bytesTag(2)) entry.value = reader.latin1();
    else reader.skip();
  }
  into.push(entry);
}

interface RateLimitAnswer {
  /** One for each descriptor, in their order. */
  readonly statuses: readonly DescriptorStatus[];
  readonly fields: HeaderList;
  /** For the client, if it is over the limit. */
  readonly body: string;
}

export interface DescriptorStatus {
  readonly isOverLimit: boolean;
  readonly limit: number;
  readonly rate: Rate;
  readonly policyName: string;
  readonly remaining: number;
  /** Not negative. */
  readonly untilResetMs: number;
}

const codes = { ok: 1, overLimit: 2 } as const;
/** The values of RateLimit.Unit. */
const units = { unknown: 0, second: 1, minute: 2, hour: 3, day: 4, month: 5 } as const;
const unitsByWindow: ReadonlyMap<number, number> = new Map([
  [1_000, units.second],
  [60_000, units.minute],
  [3_600_000, units.hour],
  [86_400_000, units.day],
]);

function unitOf(rate: Rate): number {
  switch (rate.kind) {
    case "sliding":
      return unitsByWindow.get(rate.windowMs) ?? units.unknown;
    case "calendar":
      return units[rate.per];
    case "concurrency":
      return units.unknown;
  }
}

export function rateLimitResponse({ statuses, fields, body }: RateLimitAnswer): string {
  const isOverLimit = statuses.some((status) => status.isOverLimit);
  const code = numberField(1, isOverLimit ? codes.overLimit : codes.ok);
  return code + statuses.map(statusField).join("") + headers(fields) + textField(5, body);
}

function statusField(status: DescriptorStatus): string {
  const limit = numberField(1, status.limit) + numberField(2, unitOf(status.rate)) + textField(3, status.policyName);
  const untilReset =
    numberField(1, Math.floor(status.untilResetMs / 1000)) +
    numberField(2, Math.floor((status.untilResetMs % 1000) * 1e6));
  const code = numberField(1, status.isOverLimit ? codes.overLimit : codes.ok);
  const left = numberField(3, status.remaining);
  return messageField(2, code + messageField(2, limit) + left + messageField(4, untilReset));
}

function headers(fields: HeaderList): string {
  let text = "";
  for (let i = 0; i < fields.length; i += 2) {
    text += messageField(3, textField(1, (fields[i] ?? "").toLowerCase()) + textField(2, fields[i + 1] ?? ""));
  }
  return text;
}
