// Checks a token of the caller before any request, because the platform's error about an invalid header quotes the value.

/** Throws a TypeError that does not contain the token. */
export function checkToken(token: unknown): void {
  if (typeof token !== "string" || !/^[!#-+\--~]+$/.test(token)) {
    throw new TypeError('token must be a bearer token: visible ASCII without "," and \'"\'');
  }
}
