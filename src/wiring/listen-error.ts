// The start failed because a listener could not be opened.

export type ListenerName = "traffic" | "admin" | "ext-auth" | "grpc";

export interface ListenerAddress {
  readonly host: string;
  readonly port: number;
}

/** The system's error is the cause. */
export class ListenError extends Error {
  readonly listener: ListenerName;
  readonly address: ListenerAddress;

  constructor(listener: ListenerName, { host, port }: ListenerAddress, cause: unknown) {
    super(`The ${listener} listener cannot be opened.`, { cause });
    this.listener = listener;
    this.address = { host, port };
  }
}
