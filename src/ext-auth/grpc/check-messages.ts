// The messages of Envoy's external authorization (envoy/service/auth/v3/external_auth.proto and
// attribute_context.proto): reads what a check needs, writes what Envoy acts on. Field numbers are those of the public
// definitions.
import type { HeaderList } from "../../core/headers.ts";
import { bytesTag, messageField, numberField, ProtobufReader, textField } from "./protobuf.ts";

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
  const into: Reading = { sourceAddress: "", method: "", path: "", host: "", rawHeaders: [] };
  readCheck(reader, into);
  return reader.isBroken ? undefined : into;
}

interface Reading {
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

const readSocketAddress: Read<Reading> = (reader, into) => {
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

const readFieldInto: Read<Reading> = (reader, into) => {
  if (into.rawHeaders.length > 2 * maxCheckHeaders) {
    for (let tag = reader.next(); tag !== 0; tag = reader.next()) reader.skip();
    return;
  }
  const field = { name: "", value: "" };
  readField(reader, field);
  into.rawHeaders.push(field.name, field.value);
};

const readFieldMap = inner(bytesTag(1), readFieldInto);

const readHttp: Read<Reading> = (reader, into) => {
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
const readAttributes: Read<Reading> = (reader, into) => {
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
