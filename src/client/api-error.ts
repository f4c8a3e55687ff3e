// An error response of the API, with the messages of the v2 error format. Never contains the caller's token, even if a
// server quotes it: logs that print the error would contain it.

export interface ApiErrorDetail {
  readonly errMsg: string;
}

/**
 * A refusal, or with a 2xx status a body that is not JSON or not a page. Failed connections and aborts are not
 * ApiErrors: they remain what fetch rejects with.
 */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly errors: readonly ApiErrorDetail[];

  constructor(status: number, message: string, errors: readonly ApiErrorDetail[] = []) {
    super(message);
    this.status = status;
    this.errors = errors;
  }
}

/**
 * Makes the error from an unsuccessful response. If the body is in another format, only the status is used. `token`: null
 * if none was sent.
 */
export function refusal(status: number, text: string, token: string | null): ApiError {
  const body = parsed(text);
  const { message, errors } = isObject(body) ? body : { message: undefined, errors: undefined };
  const details = Array.isArray(errors) ? errors.filter(isDetail) : [];
  return new ApiError(
    status,
    typeof message === "string" ? without(token, message) : `The server answered ${status}`,
    details.map(({ errMsg }) => ({ errMsg: without(token, errMsg) })),
  );
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns undefined, which no JSON means, if the text is not JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Without the SyntaxError as cause: its message quotes the body, which may quote the token.
    return undefined;
  }
}

function isDetail(value: unknown): value is ApiErrorDetail {
  if (!isObject(value)) return false;
  const { errMsg } = value;
  return typeof errMsg === "string";
}

function without(token: string | null, text: string): string {
  return token === null ? text : text.replaceAll(token, "[token]");
}
