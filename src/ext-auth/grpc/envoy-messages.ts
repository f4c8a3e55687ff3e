// The messages of Envoy's two services, external authorization and the rate limit service.
import type { HeaderList } from "../../core/headers.ts";
import type { Rate } from "../../core/policy.ts";
import { gatewayResponseFields } from "../../core/response-fields.ts";
import { bytesTag, messageField, numberField, ProtobufReader, textField, varintTag } from "./protobuf.ts";

export interface CheckRequest {
  /** The client as Envoy sees it, without a port; "" if it is no IP address. */
  readonly sourceAddress: string;
  readonly method: string;
  /** Path and query, as they came. */
  readonly path: string;
  readonly host: string;
  /** Includes Envoy's pseudo-header fields. Incomplete if there are more than `maxCheckHeaders`. */
  readonly rawHeaders: HeaderList;
}

/** By default, Envoy accepts 100 headers from a client. Each costs 1.5 µs. */
export const maxCheckHeaders = 1_000;

/** Undefined if the bytes are no valid message. A field that is missing is "". */
export function readCheckRequest(bytes: Buffer): CheckRequest | undefined {
  const reader = new ProtobufReader(bytes);
  const into: CheckReading = { sourceAddress: "", method: "", path: "", host: "", rawHeaders: [] };
  readCheck(reader, into);
  return reader.isBroken ? undefined : into;
}

interface CheckReading {
  sourceAddress: string;
  method: string;
  path: string;
  host: string;
  readonly rawHeaders: string[];
}

type Read<T> = (reader: ProtobufReader, into: T) => void;

/** Reads the message in one field and skips the other fields. */
function inner<T>(tag: number, read: Read<T>): Read<T> {
  return (reader, into) => {
    for (let next = reader.next(); next !== 0; next = reader.next()) {
      if (next === tag) reader.message(read, into);
      else reader.skip();
    }
  };
}

const readSocketAddress: Read<CheckReading> = (reader, into) => {
  for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
    if (tag === bytesTag(2)) into.sourceAddress = reader.latin1();
    else reader.skip();
  }
};

/** Reads an entry of a map or of a HeaderMap: key in 1, value in 2, and in a HeaderMap the raw value in 3. */
const readField: Read<{ name: string; value: string }> = (reader, into) => {
  for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
    if (tag === bytesTag(1)) into.name = reader.latin1();
    else if (tag === bytesTag(2) || tag === bytesTag(3)) into.value = reader.latin1();
    else reader.skip();
  }
};

const readFieldInto: Read<CheckReading> = (reader, into) => {
  if (into.rawHeaders.length > 2 * maxCheckHeaders) {
    for (let tag = reader.next(); tag !== 0; tag = reader.next()) reader.skip();
    return;
  }
  const field = { name: "", value: "" };
  readField(reader, field);
  into.rawHeaders.push(field.name, field.value);
};

const readFieldMap = inner(bytesTag(1), readFieldInto);

const readHttp: Read<CheckReading> = (reader, into) => {
  for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
    if (tag === bytesTag(2)) into.method = reader.latin1();
    else if (tag === bytesTag(3)) reader.message(readFieldInto, into);
    else if (tag === bytesTag(4)) into.path = reader.latin1();
    else if (tag === bytesTag(5)) into.host = reader.latin1();
    else if (tag === bytesTag(13)) reader.message(readFieldMap, into);
    else reader.skip();
  }
};

// CheckRequest.source.address.socket_address and CheckRequest.request.http.
const readSource = inner(bytesTag(1), inner(bytesTag(1), readSocketAddress));
const parseRequest = inner(bytesTag(2), readHttp);
const readAttributes: Read<CheckReading> = (reader, into) => {
  for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
    if (tag === bytesTag(1)) reader.message(readSource, into);
    else if (tag === bytesTag(4)) reader.message(parseRequest, into);
    else reader.skip();
  }
};
const readCheck = inner(bytesTag(1), readAttributes);

/**
 * Admits the request; Envoy sets `fields` on the client's response. `subject`: whom the token stands for, in the dynamic
 * metadata, where Envoy's access log and filters find it; null: nothing is said.
 */
export function okCheckResponse(fields: HeaderList, subject: string | null): string {
  // A status without a code is OK.
  const admitted = messageField(1, "") + messageField(3, headerOptions(6, fields));
  return subject === null ? admitted : admitted + messageField(4, structOf("subject", subject));
}

/** A google.protobuf.Struct with one text. */
function structOf(name: string, value: string): string {
  const text = Buffer.from(value, "utf8").toString("latin1");
  return messageField(1, textField(1, name) + messageField(2, textField(3, text)));
}

/** Refuses the request; Envoy responds with `httpStatus`, `fields` and `body`. `code` is any gRPC code but OK. */
export function deniedCheckResponse(code: number, httpStatus: number, fields: HeaderList, body: string): string {
  const denied = messageField(1, numberField(1, httpStatus)) + headerOptions(2, fields) + textField(3, body);
  return messageField(1, numberField(1, code)) + messageField(2, denied);
}

/** OVERWRITE_IF_EXISTS_OR_ADD replaces the upstream's fields. An Envoy that does not know this value does the same. */
const overwrite = 2;

function headerOptions(field: number, fields: HeaderList): string {
  let text = "";
  for (let i = 0; i < fields.length; i += 2) {
    const header = textField(1, (fields[i] ?? "").toLowerCase()) + textField(2, fields[i + 1] ?? "");
    text += messageField(field, messageField(1, header) + numberField(3, overwrite));
  }
  return text;
}

/**
 * The messages of Envoy's rate limit service (envoy/service/ratelimit/v3/rls.proto). Field numbers are those of the
 * public definition. What a request asks for and the gateway does not do is kept, so that it can be refused.
 */
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
  const into: QuotaReading = { domain: "", descriptors: [], hitsAddend: 0 };
  for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
    if (tag === bytesTag(1)) into.domain = reader.latin1();
    else if (tag === bytesTag(2)) reader.message(readDescriptor, into);
    else if (tag === varintTag(3)) into.hitsAddend = reader.number();
    else reader.skip();
  }
  return reader.isBroken ? undefined : into;
}

interface QuotaReading {
  domain: string;
  readonly descriptors: Descriptor[];
  hitsAddend: number;
}

function readDescriptor(reader: ProtobufReader, into: QuotaReading): void {
  const entries: MapEntry[] = [];
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

interface MapEntry {
  key: string;
  value: string;
}

function readEntry(reader: ProtobufReader, into: MapEntry[]): void {
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

/**
 * Selects the fields of a check's answer that Envoy is to send to the client. Envoy forwards all it is given, and adds
 * its own. Envoy sends this field itself.
 */
export const lengthField: ReadonlySet<string> = new Set(["content-length"]);

/** Keeps Date and the rate limit fields. The other fields of an admission describe the check's answer, not the response. */
export function clientFields(fields: HeaderList): string[] {
  return fields.filter((_, i) => gatewayResponseFields.has((fields[i - (i % 2)] ?? "").toLowerCase()));
}

/** Drops the fields with these names, which are in lower case. */
export function without(fields: HeaderList, names: ReadonlySet<string>): string[] {
  return fields.filter((_, i) => !names.has((fields[i - (i % 2)] ?? "").toLowerCase()));
}
