// An error response of the API, with the messages of the v2 error format. It never repeats the caller's token: a server that
// quotes it back would otherwise put it into every log that prints the error.

export interface ApiErrorDetail {
  readonly errMsg: string;
}

/**
 * `status` is that of the response. With a 2xx status the body was wrong: no JSON, or not the shape of a page. Failed
 * connections and aborts are not ApiErrors: they remain what fetch rejects with.
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

/** Makes the error from the body of an unsuccessful response. Of a body in another format only the status is used. */
export function refusal(status: number, text: string, token: string): ApiError {
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

/** The value, or undefined (which JSON cannot say) when the text is no JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The SyntaxError is dropped on purpose: its message quotes the body, which may quote the token.
    return undefined;
  }
}

function isDetail(value: unknown): value is ApiErrorDetail {
  if (!isObject(value)) return false;
  const { errMsg } = value;
  return typeof errMsg === "string";
}

function without(token: string, text: string): string {
  return text.replaceAll(token, "[token]");
}
