// The messages against protobufjs: what it writes is read as it was meant, whatever else is in it, and bytes that are no
// message are told from those that are without an exception.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { PeriodName, Rate } from "../../../src/core/policy.ts";
import {
  deniedCheckResponse,
  okCheckResponse,
  rateLimitResponse,
  readCheckRequest,
  readRateLimitRequest,
} from "../../../src/ext-auth/grpc/envoy-messages.ts";
import {
  bytesTag,
  messageField,
  numberField,
  ProtobufReader,
  textField,
  varintTag,
} from "../../../src/ext-auth/grpc/protobuf.ts";
import { mutated } from "./mutated.ts";
import { check, shouldRateLimit } from "./protocol.ts";
import { fullCheckRequest, rateLimitRequest } from "./requests.ts";

const latin1 = (text: string): string => Buffer.from(text).toString("latin1");
/** Any code point but half of a surrogate pair. What fast-check has for it first makes a map of all of them, for a second. */
const character = fc.oneof(fc.nat({ max: 0x7f }), fc.nat({ max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff }));
const text = fc.array(character, { maxLength: 200 }).map((codes) => String.fromCodePoint(...codes));

describe("a CheckRequest", () => {
  test("is read out of all that Envoy can put around it", () => {
    const bytes = check.requestSerialize(fullCheckRequest);
    expect(readCheckRequest(bytes)).toEqual({
      sourceAddress: "192.0.2.7",
      method: "POST",
      path: "/v2/transactions?limit=5",
      host: "api.example.com",
      rawHeaders: [":method", "POST", "authorization", "Bearer abc", "x-note", latin1("é")],
    });
  });

  test("has the fields of a header map as they came, in their order and bytes", () => {
    const headers = [
      { key: "cookie", raw_value: Buffer.from("a=1") },
      { key: "x", raw_value: Buffer.from([0xe9, 0x00, 0x80]) },
      { key: "cookie", raw_value: Buffer.from("b=2") },
    ];
    const bytes = check.requestSerialize({ attributes: { request: { http: { header_map: { headers } } } } });
    expect(readCheckRequest(bytes)?.rawHeaders).toEqual(["cookie", "a=1", "x", "\xe9\0\x80", "cookie", "b=2"]);
  });

  test("equals what was written, for any texts", () => {
    fc.assert(
      fc.property(text, text, text, fc.dictionary(text, text), (address, path, host, headers) => {
        const source = { address: { socket_address: { address, port_value: 1 } } };
        const bytes = check.requestSerialize({ attributes: { source, request: { http: { path, host, headers } } } });
        const rawHeaders = Object.entries(headers).flat().map(latin1);
        const expected = { sourceAddress: latin1(address), path: latin1(path), host: latin1(host), rawHeaders };
        expect(readCheckRequest(bytes)).toEqual({ method: "", ...expected });
      }),
    );
  });

  test("cut anywhere inside is none", () => {
    const bytes = check.requestSerialize(fullCheckRequest);
    // One field holds all others, so only nothing is whole besides all.
    for (let end = 1; end < bytes.length; end += 1) expect(readCheckRequest(bytes.subarray(0, end))).toBeUndefined();
  });
});

describe("a RateLimitRequest", () => {
  test("shows all that it asks for", () => {
    const entries = [{ key: "remote_address", value: "192.0.2.7" }];
    const bytes = shouldRateLimit.requestSerialize({
      domain: "d",
      hits_addend: 4_294_967_295,
      descriptors: [
        { entries },
        { entries, limit: { requests_per_unit: 1 } },
        { hits_addend: { value: 2 } },
        { hits_addend: {} },
      ],
    });
    expect(readRateLimitRequest(bytes)).toEqual({
      domain: "d",
      hitsAddend: 4_294_967_295,
      descriptors: [
        { entries, hasOverride: false, hits: null },
        { entries, hasOverride: true, hits: null },
        { entries: [], hasOverride: false, hits: 2 },
        { entries: [], hasOverride: false, hits: 0 },
      ],
    });
  });
});

describe("answers", () => {
  test("a CheckResponse that lets pass", () => {
    const bytes = Buffer.from(okCheckResponse(["Date", "now", "RateLimit-Limit", "100"], null), "latin1");
    const option = (key: string, value: string) => ({
      header: { key, value, raw_value: Buffer.alloc(0) },
      append: null,
      append_action: "OVERWRITE_IF_EXISTS_OR_ADD",
      keep_empty_value: false,
    });
    expect(check.responseDeserialize(bytes)).toEqual({
      dynamic_metadata: null,
      status: { code: 0, message: "" },
      http_response: "ok_response",
      ok_response: {
        headers: [],
        headers_to_remove: [],
        response_headers_to_add: [option("date", "now"), option("ratelimit-limit", "100")],
      },
    });
  });

  test("a CheckResponse that says whom the token stands for", () => {
    const bytes = Buffer.from(okCheckResponse([], "Zoë"), "latin1");
    expect(check.responseDeserialize(bytes)).toMatchObject({
      dynamic_metadata: { fields: { subject: { stringValue: "Zoë" } } },
    });
  });

  test("a CheckResponse that refuses", () => {
    const body = "x".repeat(20_000);
    const bytes = Buffer.from(deniedCheckResponse(7, 429, ["Retry-After", "60"], body), "latin1");
    const header = { key: "retry-after", value: "60", raw_value: Buffer.alloc(0) };
    expect(check.responseDeserialize(bytes)).toMatchObject({
      status: { code: 7 },
      http_response: "denied_response",
      denied_response: { status: { code: 429 }, headers: [{ header }], body },
    });
  });

  const sliding = (windowMs: number): Rate => ({ kind: "sliding", windowMs });
  const calendar = (per: PeriodName): Rate => ({ kind: "calendar", per, timezone: "UTC" });
  const status = {
    isOverLimit: false,
    limit: 100,
    rate: sliding(90_000),
    policyName: "a",
    remaining: 7,
    untilResetMs: 0,
  };

  test.for([
    [sliding(1_000), "SECOND"],
    [sliding(60_000), "MINUTE"],
    [sliding(3_600_000), "HOUR"],
    [sliding(86_400_000), "DAY"],
    [sliding(90_000), "UNKNOWN"],
    [calendar("minute"), "MINUTE"],
    [calendar("hour"), "HOUR"],
    [calendar("day"), "DAY"],
    [calendar("month"), "MONTH"],
    [{ kind: "concurrency" }, "UNKNOWN"],
  ] as const)("a RateLimitResponse for %j", ([rate, unit]) => {
    const over = { isOverLimit: true, limit: 100, rate, policyName: "per-ip", remaining: 0, untilResetMs: 1_250.5 };
    const bytes = Buffer.from(rateLimitResponse({ statuses: [over], fields: ["A", "b"], body: "{}" }), "latin1");
    expect(shouldRateLimit.responseDeserialize(bytes)).toEqual({
      overall_code: "OVER_LIMIT",
      statuses: [
        {
          code: "OVER_LIMIT",
          current_limit: { requests_per_unit: 100, unit, name: "per-ip" },
          limit_remaining: 0,
          duration_until_reset: { seconds: 1, nanos: 250_500_000 },
        },
      ],
      response_headers_to_add: [{ key: "a", value: "b" }],
      request_headers_to_add: [],
      raw_body: Buffer.from("{}"),
    });
  });

  test("a RateLimitResponse has a status for each descriptor, and is over the limit if one is", () => {
    const codesOf = (...areOver: boolean[]) => {
      const statuses = areOver.map((isOverLimit, i) => ({ ...status, isOverLimit, policyName: `p${i}` }));
      const bytes = Buffer.from(rateLimitResponse({ statuses, fields: [], body: "" }), "latin1");
      return shouldRateLimit.responseDeserialize(bytes);
    };
    expect(codesOf(false, true)).toMatchObject({
      overall_code: "OVER_LIMIT",
      statuses: [
        { code: "OK", current_limit: { name: "p0" }, limit_remaining: 7 },
        { code: "OVER_LIMIT", current_limit: { name: "p1" } },
      ],
    });
    expect(codesOf(false, false)).toMatchObject({ overall_code: "OK", statuses: [{ code: "OK" }, { code: "OK" }] });
  });
});

describe("the wire format", () => {
  const read = (...bytes: number[]): [number[], boolean] => {
    const reader = new ProtobufReader(Buffer.from(bytes));
    const tags: number[] = [];
    for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
      tags.push(tag);
      reader.skip();
    }
    return [tags, reader.isBroken];
  };

  test("what is unknown is skipped, of every wire type, groups within groups too", () => {
    // Field 1: varint, 64 bits, bytes, 32 bits; then a group 2 with a group 3 in it; then field 1 again.
    const group = [0x13, 0x1b, 0x08, 0x05, 0x1c, 0x14];
    const bytes = [0x08, 0xff, 0x01, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0x0a, 0x01, 0x00, 0x0d, 0, 0, 0, 0];
    expect(read(...bytes, ...group, 0x08, 0x00)).toEqual([[8, 9, 10, 13, 19, 8], false]);
  });

  test.for<[string, number[]]>([
    ["a field 0", [0x00, 0x00]],
    ["a tag of more than 32 bits", [0x88, 0x80, 0x80, 0x80, 0x10, 0x00]],
    ["a varint that does not end", [0x08, 0xff]],
    ["a varint of eleven bytes", [0x08, ...Array(10).fill(0x80), 0x00]],
    ["a length beyond the end", [0x0a, 0x02, 0x00]],
    ["a length of 2^63", [0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]],
    ["four bytes that are three", [0x0d, 0, 0, 0]],
    ["eight bytes that are seven", [0x09, 0, 0, 0, 0, 0, 0, 0]],
    ["a group that does not end", [0x13, 0x08, 0x05]],
    ["a group that ends as another", [0x13, 0x1c]],
    ["the end of no group", [0x14]],
    ["a wire type that there is not", [0x0e, 0x00]],
    ["groups more than a hundred deep", [...Array(101).fill(0x13), ...Array(101).fill(0x14)]],
  ])("%s is no message", ([, bytes]) => {
    expect(read(...bytes)[1]).toBe(true);
  });

  test("a field of another wire type than expected is skipped", () => {
    const bytes = Buffer.from(numberField(1, 5) + messageField(2, numberField(1, 5)) + textField(3, "x"), "latin1");
    expect(readRateLimitRequest(bytes)).toEqual({
      domain: "",
      hitsAddend: 0,
      descriptors: [{ entries: [], hasOverride: false, hits: null }],
    });
  });

  test("nothing beyond a message within is read as its own", () => {
    const reader = new ProtobufReader(Buffer.from([0x0a, 0x02, 0x08, 0x96, 0x01, 0x10, 0x07]));
    expect(reader.next()).toBe(bytesTag(1));
    reader.message((inner) => {
      expect(inner.next()).toBe(varintTag(1));
      inner.number();
      expect(inner.next()).toBe(0);
    }, null);
    // The number went on behind the message's end.
    expect([reader.next(), reader.isBroken]).toEqual([0, true]);
  });

  test("numbers up to 2^53 are exact", () => {
    fc.assert(
      fc.property(fc.nat(), fc.maxSafeNat(), (before, value) => {
        const reader = new ProtobufReader(
          Buffer.from(numberField(1, before + 1) + numberField(2, value + 1), "latin1"),
        );
        const read: number[] = [];
        for (let tag = reader.next(); tag !== 0; tag = reader.next()) read.push(tag, reader.number());
        expect([read, reader.isBroken]).toEqual([[8, before + 1, 16, value + 1], false]);
      }),
    );
  });
});

test("20,000 mutated messages are read or refused, and none throws", () => {
  const seeds = [check.requestSerialize(fullCheckRequest), shouldRateLimit.requestSerialize(rateLimitRequest())];
  const outcomes = { read: 0, refused: 0 };
  for (const bytes of mutated(seeds, 20_000)) {
    for (const reading of [readCheckRequest(bytes), readRateLimitRequest(bytes)]) {
      outcomes[reading === undefined ? "refused" : "read"] += 1;
    }
  }
  // Were nearly all of one kind, the mutations would not reach what they should.
  expect(outcomes.read).toBeGreaterThan(2_000);
  expect(outcomes.refused).toBeGreaterThan(2_000);
});
