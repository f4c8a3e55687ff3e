// The head of a request to the upstream, which is kept for requests with the same bytes: it is always the head that would
// be made anew.
import { expect, test } from "vitest";
import type { ForwardingHeader } from "../../src/core/client-address.ts";
import { fixedFieldNames } from "../../src/core/field-names.ts";
import { HeadersMemory, HeadMemory } from "../../src/core/request-head.ts";
import type { Exchange } from "../../src/exchange/exchange.ts";
import { upstreamRequestStart } from "../../src/upstream/request-fields.ts";

const rawHeaders = ["Host", "h", "Forwarded", "for=192.0.2.1", "X-Forwarded-For", "192.0.2.2"];
const peer = { isTrusted: true, text: "192.0.2.9" };

/** The parts of an exchange from which the head is made. */
const exchangeOf = (memory: HeadMemory | null, parsed: object, id: string): Exchange =>
  ({
    ...{ shownId: id, method: "GET", transport: { scheme: "http" }, verdict: { parsed } },
    head: { memory, rawHeaders, method: "GET", peer },
  }) as unknown as Exchange;

const parsedFor = (upstreamTarget: string) => ({ upstreamTarget, target: undefined, message: { host: "h" } });

test("of requests with the same bytes, it follows what was parsed, the header that names the client, and the id", () => {
  const memory = new HeadMemory(new HeadersMemory());
  const [before, after] = [parsedFor("/old/a"), parsedFor("/new/a")];
  const requests: [object, ForwardingHeader, string][] = [
    [before, "x-forwarded-for", "1"],
    [before, "x-forwarded-for", "2"],
    [before, "x-forwarded-for", "3"],
    // Another configuration is in force.
    [after, "x-forwarded-for", "4"],
    [after, "x-forwarded-for", "5"],
    [after, "forwarded", "6"],
    [after, "forwarded", "7"],
  ];
  const optionsFor = {
    "x-forwarded-for": {
      forwardingHeader: "x-forwarded-for",
      fieldNames: fixedFieldNames,
      upstreamHost: "u",
      keepsClientHost: true,
    },
    forwarded: { forwardingHeader: "forwarded", fieldNames: fixedFieldNames, upstreamHost: "u", keepsClientHost: true },
  } as const;
  const heads = requests.map(([parsed, header, id]) => {
    const options = optionsFor[header];
    const head = upstreamRequestStart(exchangeOf(memory, parsed, id), options);
    expect(head).toBe(upstreamRequestStart(exchangeOf(null, parsed, id), options));
    return head;
  });
  expect(heads[2]).toMatch(/^GET \/old\/a HTTP\/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.2, 192.0.2.9\r\n/);
  expect(heads[6]).toMatch(/^GET \/new\/a HTTP\/1.1\r\nHost: h\r\nForwarded: for=192.0.2.1\r\n/);
  expect(heads.map((head) => head.slice(head.indexOf("X-Request-Id")))).toEqual(
    requests.map(([, , id]) => `X-Request-Id: ${id}`),
  );
});
