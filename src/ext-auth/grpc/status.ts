// The gRPC status of a failed call: a code, and a message for the operator who configured the caller.

export interface GrpcStatus {
  readonly code: number;
  /** ASCII. Never contains an address, a token or the path of a file. */
  readonly message: string;
}

/** From https://grpc.github.io/grpc/core/md_doc_statuscodes.html. */
export const grpcCodes = {
  ok: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  permissionDenied: 7,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** Statuses that more than one method uses. */
export const statuses = {
  malformed: { code: grpcCodes.invalidArgument, message: "the message is not well-formed" },
  notAnAddress: { code: grpcCodes.invalidArgument, message: "the client's address is no IP address" },
  internal: { code: grpcCodes.internal, message: "the gateway failed to handle the call" },
  untrusted: { code: grpcCodes.permissionDenied, message: "this caller may not ask here" },
} as const;

/** `grpc-status` and, unless the message is empty, `grpc-message`, in which anything but printable ASCII is encoded. */
export function statusFields({ code, message }: GrpcStatus): string[] {
  const status = ["grpc-status", `${code}`];
  return message === "" ? status : [...status, "grpc-message", message.replace(/[^ -$&-~]/g, encodeURIComponent)];
}

/** Parses `grpc-timeout`: at most eight digits and a unit. Undefined if it is malformed. */
export function readTimeoutMs(text: string): number | undefined {
  const match = /^(\d{1,8})([HMSmun])$/.exec(text);
  const unitMs = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 }[match?.[2] ?? ""];
  return unitMs === undefined ? undefined : Number(match?.[1]) * unitMs;
}
