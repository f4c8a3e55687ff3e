// Names of fields on every carrier: those that a server could take for one that means something are refused, and the
// response and the log say which name it is; all others pass. Which names mean something depends on the configuration.
import { beforeAll, describe, expect, test } from "vitest";
import { type Carriers, openCarriers } from "../support/carriers.ts";
import { useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { slidingPolicy } from "../support/policy.ts";
import { useTls } from "../support/tls-listener.ts";
import type { Carrier } from "./messages/rules.ts";

const cleanup = useCleanup();
const sharedCleanup = useSharedCleanup();
const tls = useTls();

const carriers: readonly Carrier[] = [
  ...(["HTTP/1.1", "HTTP/2", "auth-request", "ext-authz", "gRPC"] as const),
  ...(["plugin", "plugin over HTTP/2"] as const),
];

/** By whether a field in the key of a policy, and a dropped one, are configured. */
const configured = ["x-org", "api_key", "x-user"];

/** In lower case, as HTTP/2 has them. */
const names: readonly (readonly [name: string, other: string | null])[] = [
  ["sfdc_stack_depth", null],
  ["api.key.id", null],
  ["__proto__", null],
  ["_", null],
  ["content_type", null],
  ["x_forwarded_for", "x-forwarded-for"],
  ["x-forwarded.user", "x-forwarded-user"],
  ["x_request_id", "x-request-id"],
  ["content_length", "content-length"],
  ["transfer_encoding", "transfer-encoding"],
  ["proxy_authorization", "proxy-authorization"],
  ["x_http_method_override", "x-http-method-override"],
  ["client_ip", "client-ip"],
  ["true.client.ip", "true-client-ip"],
  ["http_client_ip", "http-client-ip"],
  ["cf+connecting+ip", "cf-connecting-ip"],
  ["client_cert", "client-cert"],
  ["x_org", "x-org"],
  ["api-key", "api_key"],
  ["api.key", "api_key"],
  ["x_user", "x-user"],
  ...configured.map((name) => [name, null] as const),
];

const rows = names.flatMap(([name, other]) => [
  { name, other, isConfigured: true },
  { name, other: configured.includes(other ?? "") ? null : other, isConfigured: false },
]);

describe.each([true, false])("with names of the configuration: %s", (isConfigured) => {
  let stage: Carriers;
  beforeAll(async () => {
    const policy = slidingPolicy({ limit: 10_000, windowMs: 60_000 });
    const key = [{ kind: "client" }, { kind: "header", name: "x-org" }, { kind: "header", name: "api_key" }] as const;
    const policies = [policy, { ...policy, name: "per-org", key }];
    const clientAddress = { dropHeaders: ["x-user"] };
    const options = { overrides: { policies, clientAddress }, plugin: { clientAddress } };
    stage = await openCarriers(sharedCleanup, tls(), isConfigured ? options : {});
  });

  test.each(rows.filter((row) => row.isConfigured === isConfigured))(
    "$name is read as $other",
    async ({ name, other }) => {
      for (const carrier of carriers) {
        const received = stage.received.length;
        const fields = [[name, "secret"]] as const;
        const { status, rawHeaders, body } = await stage.ask[carrier]({ fields }, cleanup);
        expect([carrier, status]).toEqual([carrier, other === null ? 200 : 400]);
        expect(JSON.stringify([rawHeaders, body])).not.toContain("secret");
        if (other !== null) {
          expect([carrier, body]).toEqual([
            carrier,
            expect.stringContaining(`The header name ${name} can be read as ${other}.`),
          ]);
          expect(stage.received.length).toBe(received);
        }
      }
      if (other === null) return;
      const refused = () => stage.gateway.logLines.filter(({ field }) => field === name);
      await eventually("every carrier of the gateway logs the name", () => refused().length >= 5);
      expect(new Set(refused().map(({ problem }) => problem))).toEqual(new Set(["bad_field_name"]));
      expect(JSON.stringify(stage.gateway.logLines)).not.toContain('secret"');
    },
  );
});
