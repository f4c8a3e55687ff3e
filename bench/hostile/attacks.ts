// All attacks, by name.
import type { Attack } from "./attack.ts";
import { adminAttacks } from "./attacks/admin.ts";
import { bodies } from "./attacks/bodies.ts";
import { checkAttacks } from "./attacks/checks.ts";
import { clients } from "./attacks/clients.ts";
import { connections } from "./attacks/connections.ts";
import { grpcAttacks } from "./attacks/grpc.ts";
import { heads } from "./attacks/heads.ts";
import { heldRequests } from "./attacks/held-requests.ts";
import { http2Floods } from "./attacks/http2-floods.ts";
import { http2Heads } from "./attacks/http2-heads.ts";
import { ordinaryLoads } from "./attacks/ordinary-loads.ts";
import { pipelinedAttacks } from "./attacks/pipelined.ts";
import { proxyAttacks } from "./attacks/proxy.ts";
import { tlsAttacks } from "./attacks/tls.ts";
import { tunnelAttacks } from "./attacks/tunnels.ts";
import { upstreamAttacks } from "./attacks/upstream.ts";

export const attacks: readonly Attack[] = [
  ...heads,
  ...bodies,
  ...connections,
  ...heldRequests,
  ...clients,
  ...pipelinedAttacks,
  ...tlsAttacks,
  ...http2Heads,
  ...http2Floods,
  ...checkAttacks,
  ...grpcAttacks,
  ...proxyAttacks,
  ...tunnelAttacks,
  ...adminAttacks,
  ...upstreamAttacks,
];

export function attackNamed(name: string): Attack {
  const found = [...attacks, ...ordinaryLoads].find((one) => one.name === name);
  if (found === undefined) throw new Error(`there is no attack with the name ${name}`);
  return found;
}
