// What stands in the configuration of every gateway that the bench starts.

export interface GatewayPorts {
  readonly port: number;
  readonly admin: number;
  readonly upstreamPort: number;
  /** The certificate of an upstream over TLS. */
  readonly upstreamCa?: string | undefined;
}

/** `more`: further keys of `listen`, in flow style. */
export function gatewayFrame(
  { port, admin, upstreamPort, upstreamCa }: GatewayPorts,
  more: readonly string[] = [],
): string {
  const listen = [`host: 127.0.0.1, port: ${port}, maxRequestsPerConnection: 1000000000`, ...more].join(", ");
  const upstream =
    upstreamCa === undefined
      ? `url: "http://127.0.0.1:${upstreamPort}"`
      : `url: "https://127.0.0.1:${upstreamPort}", tls: { ca: ${upstreamCa} }`;
  return `listen: { ${listen} }
admin: { host: 127.0.0.1, port: ${admin} }
upstream: { ${upstream} }
auth: { mode: "off" }`;
}
