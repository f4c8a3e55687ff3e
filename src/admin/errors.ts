// What the admin listener answers when it does not serve: fixed texts, so that nothing of the request, of an error or
// of the machine can be in them.

export interface AdminError {
  readonly status: number;
  readonly message: string;
  readonly errMsg: string;
}

export const errors = {
  badRequest: { status: 400, message: "Bad Request", errMsg: "The request is not well-formed HTTP." },
  notFound: { status: 404, message: "Not Found", errMsg: "There is nothing at this path." },
  methodNotAllowed: { status: 405, message: "Method Not Allowed", errMsg: "Only GET and HEAD are allowed here." },
  requestTimeout: { status: 408, message: "Request Timeout", errMsg: "The request took too long to arrive." },
  headTooLarge: {
    status: 431,
    message: "Request Header Fields Too Large",
    errMsg: "The request headers are too large.",
  },
  internal: { status: 500, message: "Internal Server Error", errMsg: "The figures could not be collected." },
} as const satisfies Record<string, AdminError>;

/** The v2 error format. */
export function errorBody({ message, errMsg }: AdminError): string {
  return JSON.stringify({ message, errors: [{ errMsg }] });
}

/** A whole response, for a connection on which there is no request to answer. */
export function rawAnswer(error: AdminError): string {
  const body = errorBody(error);
  return [
    `HTTP/1.1 ${error.status} ${error.message}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${body.length}`,
    "Cache-Control: no-store",
    "Connection: close",
    "",
    body,
  ].join("\r\n");
}
