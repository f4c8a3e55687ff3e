// The settings that warnings are about, as the configuration and the Fastify plugin have them.
import type { Settings } from "../core/settings.ts";

export interface WarnedSettings extends Pick<Settings, "policies" | "enforcement" | "routes" | "clientAddress"> {
  readonly auth: Pick<Settings["auth"], "mode">;
  /** `leave`: the gateway does not handle paths outside of all routes. */
  readonly unmatched: Settings["unmatched"] | "leave";
  /** Null: the app listens. */
  readonly listen: Pick<Settings["listen"], "host" | "port" | "proxyProtocol"> | null;
  /** Null: there are no ext-auth listeners. */
  readonly extAuth:
    | ({ readonly [port in "http" | "grpc"]: object | null } & Pick<Settings["extAuth"], "trustedCallers">)
    | null;
  /** Null: counters are in the memory of the process alone, whatever the settings are. */
  readonly counters: Pick<Settings["counters"], "snapshot" | "redis"> | null;
  /** Null: the app answers all requests itself. */
  readonly upstream: { readonly tls: Pick<Settings["upstream"]["tls"], "insecureSkipVerify"> } | null;
}
