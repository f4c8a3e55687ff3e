// The network between the gateways and their store, for a test to break.
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Cleanup } from "../support/cleanup.ts";

export interface ProxyFault {
  /** Of each piece, in both directions. */
  readonly delayMs: number;
  /** In each direction of each connection. */
  readonly bytesPerSecond: number;
  /** Nothing passes, and connections stay open, new ones too. What was held passes when this ends. */
  readonly isHeld: boolean;
  /** New connections are reset. */
  readonly isRefused: boolean;
}

export type ProxyCommand =
  | { readonly do: "cut" }
  | { readonly do: "fault"; readonly fault: ProxyFault }
  | { readonly do: "target"; readonly port: number };

export interface StoreProxy {
  readonly port: number;
  /** Ends all connections, in both directions. */
  cut(): Promise<void>;
  /** Replaces the fault; what is not named is well. */
  fault(fault: Partial<ProxyFault>): Promise<void>;
  /** New connections go to this port. */
  target(port: number): Promise<void>;
}

export async function startStoreProxy(cleanup: Cleanup, targetPort: number): Promise<StoreProxy> {
  const thread = new Worker(new URL("./store-proxy-thread.ts", import.meta.url), { workerData: { targetPort } });
  cleanup(() => thread.terminate());
  const [port] = await once(thread, "message");
  /** Resolves when it is in force. */
  const send = async (command: ProxyCommand): Promise<void> => {
    thread.postMessage(command);
    await once(thread, "message");
  };
  return {
    port,
    cut: () => send({ do: "cut" }),
    fault: (fault) => {
      const well = { delayMs: 0, bytesPerSecond: Number.POSITIVE_INFINITY, isHeld: false, isRefused: false };
      return send({ do: "fault", fault: { ...well, ...fault } });
    },
    target: (port) => send({ do: "target", port }),
  };
}
