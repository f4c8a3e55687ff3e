// The orders for the other clients.
import type { Attack, Carrier, OthersKind, Ports } from "./attack.ts";
import { isTls } from "./gateway-process.ts";
import type { OthersOrder } from "./others-process.ts";

export const readOthers: OthersOrder = { kind: "read" };
export const endOthers: OthersOrder = { kind: "end" };

export type Victims = Pick<Attack, "carrier" | "others">;

const perSecond: Readonly<Record<OthersKind, number>> = { kept: 200, fresh: 100, upgrade: 50, check: 200, probe: 20 };

const usual: Partial<Record<Carrier, OthersKind>> = { admin: "probe", "ext-auth": "check" };

export const othersKind = ({ carrier, others }: Victims): OthersKind => others ?? usual[carrier] ?? "kept";

/** Clients of the listener that is attacked; for gRPC, clients of the traffic listener. */
export function othersOrder(ports: Ports, victims: Victims, { addresses = 32, isWarmUp = false } = {}) {
  const what = othersKind(victims);
  const usesTraffic = what !== "probe" && what !== "check";
  const order: OthersOrder = {
    kind: "begin",
    what,
    port: what === "probe" ? ports.admin : what === "check" ? ports.checks : ports.traffic,
    perSecond: perSecond[what] * (isWarmUp ? 10 : 1),
    addresses,
    isTls: usesTraffic && isTls(victims.carrier),
    isProxied: usesTraffic && victims.carrier === "proxy",
  };
  return order;
}
