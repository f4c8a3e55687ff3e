// A bug while deciding, at once or later: the client gets a whole answer with its fields, and the process goes on.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { exchange, parseResponse, valuesOf } from "../support/raw-client.ts";
import { createTestTraffic } from "../support/traffic.ts";

const cleanup = useCleanup();

test.each([
  [
    "throws",
    () => {
      throw new Error("a bug");
    },
  ],
  ["rejects", () => Promise.reject(new Error("a bug"))],
] as const)("a decision that %s is a 500 with every field, and told", async (_, decide) => {
  const { listener, failures, ended } = createTestTraffic({ decide });
  const { port } = await listener.listen({ host: "127.0.0.1", port: 0 });
  cleanup(() => listener.drain(0));
  const response = parseResponse(await exchange(port, "GET /v2/x HTTP/1.1\r\nHost: a\r\n\r\n"));
  expect(response.status).toBe(500);
  expect(valuesOf(response.rawHeaders, "RateLimit-Limit")).toEqual(["100"]);
  expect(valuesOf(response.rawHeaders, "X-RateLimit-Remaining")).toEqual(["100"]);
  expect(valuesOf(response.rawHeaders, "Connection")).toEqual(["close"]);
  expect(response.body).not.toContain("a bug");
  expect(failures).toEqual([new Error("a bug")]);
  expect(ended).toMatchObject([{ status: 500, problem: "internal" }]);
});
