// The messages of Envoy's rate limit service (envoy/service/ratelimit/v3/rls.proto). Field numbers are those of the public
// definition. What a request asks for and the gateway does not do is kept, so that it can be refused.
import type { HeaderList } from "../../core/header-list.ts";
import { bytesTag, ProtobufReader, varintTag } from "./protobuf-reader.ts";
import { messageField, numberField, textField } from "./protobuf-text.ts";

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
  /** It carries its own number of hits. */
  readonly hasHits: boolean;
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
  let hasHits = false;
  for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
    if (tag === bytesTag(1)) reader.message(readEntry, entries);
    else {
      hasOverride ||= tag === bytesTag(2);
      hasHits ||= tag === bytesTag(3);
      reader.skip();
    }
  }
  into.descriptors.push({ entries, hasOverride, hasHits });
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

export interface RateLimitAnswer {
  readonly isOverLimit: boolean;
  readonly limit: number;
  readonly windowMs: number;
  readonly policyName: string;
  readonly remaining: number;
  /** Not negative. */
  readonly untilResetMs: number;
  readonly fields: HeaderList;
  /** For the client, if it is over the limit. */
  readonly body: string;
}

const codes = { ok: 1, overLimit: 2 } as const;
/** The values of RateLimit.Unit by the window they mean. */
const units: ReadonlyMap<number, number> = new Map([
  [1_000, 1],
  [60_000, 2],
  [3_600_000, 3],
  [86_400_000, 4],
]);

export function rateLimitResponse(answer: RateLimitAnswer): string {
  const code = numberField(1, answer.isOverLimit ? codes.overLimit : codes.ok);
  const limit =
    numberField(1, answer.limit) + numberField(2, units.get(answer.windowMs) ?? 0) + textField(3, answer.policyName);
  const untilReset =
    numberField(1, Math.floor(answer.untilResetMs / 1000)) +
    numberField(2, Math.floor((answer.untilResetMs % 1000) * 1e6));
  const status = code + messageField(2, limit) + numberField(3, answer.remaining) + messageField(4, untilReset);
  return code + messageField(2, status) + headers(answer.fields) + textField(5, answer.body);
}

function headers(fields: HeaderList): string {
  let text = "";
  for (let i = 0; i < fields.length; i += 2) {
    text += messageField(3, textField(1, (fields[i] ?? "").toLowerCase()) + textField(2, fields[i + 1] ?? ""));
  }
  return text;
}
