// Turns what the system or a library throws into an Error and its code. A log line names the code instead of the
// message, which may contain a path or an address.

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** Returns the system's or library's code, such as ENOENT; undefined without one. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** Returns the explanation of the error's code for an operator; without one the code, or else the error as a text. */
export function explainError(error: unknown, explanations: ReadonlyMap<string, string>): string {
  const code = errorCode(error);
  return explanations.get(code ?? "") ?? code ?? String(error);
}

/** Returns the code, or without one the error's name. */
export function failureCode(error: Error): string {
  return errorCode(error) ?? error.name;
}

/**
 * For an "error" event that "close" follows, which is handled: without a listener the error would end the process. And
 * for what is tidied up where that is permitted.
 */
export function ignoreError(): void {}
