// What the system or a library throws, as a value and in one word: the message may hold a path or an address, and the
// stack speaks of nothing but this code.

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** The system's word for it, such as ENOENT; for want of one the error's name. */
export function failureCode(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : error.name;
}
