// How a call ends that is not answered by a message: a code of gRPC and words for whoever wrote the caller's configuration.

export interface GrpcStatus {
  readonly code: number;
  /** ASCII. Never an address, a token or a path of a file. */
  readonly message: string;
}

/** Those of https://grpc.github.io/grpc/core/md_doc_statuscodes.html that are sent here. */
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

/** Those that more than one method ends with. */
export const statuses = {
  malformed: { code: grpcCodes.invalidArgument, message: "the message is not well-formed" },
  notAnAddress: { code: grpcCodes.invalidArgument, message: "the client's address is no IP address" },
  untrusted: { code: grpcCodes.permissionDenied, message: "this caller may not ask here" },
} as const;

/** `grpc-status` and, if there is something to say, `grpc-message`, in which anything but printable ASCII is encoded. */
export function statusFields({ code, message }: GrpcStatus): Record<string, string> {
  const status = { "grpc-status": `${code}` };
  return message === "" ? status : { ...status, "grpc-message": message.replace(/[^ -$&-~]/g, encodeURIComponent) };
}

/** Of `grpc-timeout`: at most eight digits and a unit. Undefined if it is none. */
export function readTimeoutMs(text: string): number | undefined {
  const match = /^(\d{1,8})([HMSmun])$/.exec(text);
  const unitMs = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 }[match?.[2] ?? ""];
  return unitMs === undefined ? undefined : Number(match?.[1]) * unitMs;
}
