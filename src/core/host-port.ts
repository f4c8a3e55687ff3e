// A host and a port, of a listener or of the upstream.

/** `host` is a name or an IP address, without brackets. */
export interface HostPort {
  readonly host: string;
  readonly port: number;
}
