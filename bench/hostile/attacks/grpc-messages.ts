// Messages of Envoy's services as protobuf, byte for byte.

/** A field of protobuf that has a length. */
export function part(field: number, ...values: Buffer[]): Buffer {
  const value = Buffer.concat(values);
  return Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);
}

export function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

export const textPart = (field: number, value: string): Buffer => part(field, Buffer.from(value, "latin1"));

/** A message with the prefix of gRPC. */
export function framed(message: Buffer): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** Entries of the map of headers in a check. */
export function checkHeaders(count: number, value = "x"): Buffer {
  const fixed = [entry(":path", "/v1/ok"), entry(":method", "GET"), entry("authorization", "Bearer other")];
  return Buffer.concat([...fixed, ...Array.from({ length: count }, (_, i) => entry(`x-${i}`, value))]);
}

function entry(name: string, value: string): Buffer {
  return part(3, textPart(1, name), textPart(2, value));
}

/** A framed CheckRequest. */
export function checkCall(headers: Buffer, path = "/v1/ok", client = "192.0.2.7"): Buffer {
  const http = part(2, textPart(2, "GET"), headers, textPart(4, path), textPart(5, "api.example.com"));
  const source = part(1, part(1, part(1, textPart(2, client))));
  return framed(part(1, source, part(4, http)));
}
