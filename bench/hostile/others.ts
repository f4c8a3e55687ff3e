// What the other clients are told to do.
import type { Carrier, Ports } from "./attack.ts";
import { isTls } from "./gateway-process.ts";
import type { OthersOrder } from "./others-process.ts";

export const readOthers: OthersOrder = { kind: "read" };
export const endOthers: OthersOrder = { kind: "end" };

const requestsPerSecond = 200;
const probesPerSecond = 20;

/** Clients that use the listener that is attacked. Those of the admin port are probes. */
export function othersOrder(
  ports: Ports,
  carrier: Carrier,
  perSecond = carrier === "admin" ? probesPerSecond : requestsPerSecond,
  addresses = 32,
): OthersOrder {
  const isAdmin = carrier === "admin";
  return {
    kind: "begin",
    port: isAdmin ? ports.admin : ports.traffic,
    perSecond,
    addresses,
    isTls: isTls(carrier),
    isProxied: carrier === "proxy",
    isFresh: isAdmin,
    path: isAdmin ? "/livez" : "/v1/ok",
  };
}
