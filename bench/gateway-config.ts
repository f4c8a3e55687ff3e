// What stands in the configuration of every gateway that the bench starts.

export interface GatewayPorts {
  readonly port: number;
  readonly admin: number;
  readonly upstreamPort: number;
}

/** `more`: further keys of `listen`, in flow style. */
export function gatewayFrame({ port, admin, upstreamPort }: GatewayPorts, more: readonly string[] = []): string {
  const listen = [`host: 127.0.0.1, port: ${port}, maxRequestsPerConnection: 1000000000`, ...more].join(", ");
  return `listen: { ${listen} }
admin: { host: 127.0.0.1, port: ${admin} }
upstream: { url: "http://127.0.0.1:${upstreamPort}" }
auth: { mode: "off" }`;
}
