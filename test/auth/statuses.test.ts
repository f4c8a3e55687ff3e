// The table at the top of docs/authentication.md, on every carrier: what is answered where each mode holds.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { useTls } from "../support/tls-listener.ts";
import { stageTokens } from "./carriers.ts";
import { digestOf } from "./digest.ts";

const cleanup = useCleanup();
const tls = useTls();

const yaml = `
auth:
  mode: tokens
  tokensFile: tokens.txt
  rules:
    - { paths: [/v1/login], methods: [POST], mode: "off" }
    - { paths: [/v2/], mode: presence }
policies:
  - { name: per-ip, limit: 100, window: 60s }
`;

test("each mode holds for its paths, on every carrier, and each request spends one", async () => {
  const tokens = [`${digestOf("good")}  # partner`];
  const { carriers, gateway } = await stageTokens(cleanup, { tls: tls(), yaml, tokens, withPlugin: true });
  const asked = [
    ["POST", "/v1/login", { none: 200, malformed: 200, unknown: 200, good: 200 }],
    ["GET", "/v1/login", { none: 401, malformed: 401, unknown: 401, good: 200 }],
    ["POST", "/v1//login", { none: 401, malformed: 401, unknown: 401, good: 200 }],
    ["POST", "/v1/x", { none: 401, malformed: 401, unknown: 401, good: 200 }],
    ["GET", "/v2/x", { none: 401, malformed: 401, unknown: 200, good: 200 }],
  ] as const;
  const given = { none: null, malformed: "a,b", unknown: "stranger", good: "good" } as const;
  for (const [i, { name, ask }] of carriers.entries()) {
    let spent = 0;
    for (const [method, path, statuses] of asked) {
      for (const kind of ["none", "malformed", "unknown", "good"] as const) {
        const client = `192.0.2.${i + 1}`;
        const { status, fields } = await ask({ client, method, path, token: given[kind] });
        spent += 1;
        const challenge = kind === "none" ? 'Bearer realm="finance"' : 'Bearer realm="finance", error="invalid_token"';
        expect([name, method, path, kind, status]).toEqual([name, method, path, kind, statuses[kind]]);
        expect(fields.get("ratelimit-remaining")).toBe(`${100 - spent}`);
        if (status === 401) expect(fields.get("www-authenticate")).toBe(challenge);
      }
    }
  }
  expect(gateway.logLines).toContainEqual(
    expect.objectContaining({
      msg: "limited paths without a verified token",
      open: ["POST /v1/login"],
      unverified: ["/v2/"],
    }),
  );
});
