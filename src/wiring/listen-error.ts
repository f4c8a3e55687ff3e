// The error of a start whose listener cannot be opened.
import type { HostPort } from "../core/host-port.ts";

export type ListenerName = "traffic" | "admin" | "ext-auth" | "grpc";

/** The system's error is the cause. */
export class ListenError extends Error {
  readonly listener: ListenerName;
  readonly address: HostPort;

  constructor(listener: ListenerName, { host, port }: HostPort, cause: unknown) {
    super(`The ${listener} listener cannot be opened.`, { cause });
    this.listener = listener;
    this.address = { host, port };
  }
}
