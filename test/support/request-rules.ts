// The rules of requests for tests of the pipeline without a gateway: those of a configuration without keys, where no proxy is
// trusted, but for what a test gives.
import { fixedFieldNames } from "../../src/core/field-names.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import type { RequestRules } from "../../src/core/request-head.ts";
import { createPathReader } from "../../src/core/request-path.ts";

export function requestRules(given: Partial<RequestRules> = {}): RequestRules {
  return {
    clientAddress: { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 },
    fieldNames: fixedFieldNames,
    pathReader: createPathReader(["/v1/", "/v2/"], "/"),
    ...{ unmatched: "reject", maxBodyBytes: 10, maxTargetBytes: 8192, cors: null, quota: null, readiness: null },
    onIgnored: () => {},
    paths: { own: "/", upstream: "/" },
    ...given,
  };
}
