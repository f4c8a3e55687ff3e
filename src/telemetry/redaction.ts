// Keeps credentials out of the log. No code logs a token on purpose; this is the second barrier. It works on the
// finished line, so that no key, nesting or error text can evade a list of paths.
import { type HeaderList, headerValue, headerValues } from "../core/headers.ts";

/** Whether a line that contains this text may hold a credential. */
function isSuspicious(text: string): boolean {
  return suspicious.test(text);
}

/** Hides the values of the fields that carry credentials, under any key of any depth, and bearer tokens in any text. */
export function redactLine(line: string): string {
  if (!isSuspicious(line)) return line;
  return line.replace(secretKeys, '"$1":"[redacted]"').replace(credentials, "$1 [redacted]");
}

// Nearly every line is clean. One test of those costs a third of running both replacements.
const suspicious = /authorization"|cookie"|bearer|basic/i;

// Neither pattern matches a quotation mark or a backslash of the line's JSON syntax, so the line stays JSON.
const secretKeys = /"((?:proxy-)?authorization|cookie|set-cookie)":(?:"(?:[^"\\]|\\.)*"|\[[^\]]*\])/gi;
const credentials = /\b(bearer|basic)(?: |%20|\\t)+[a-z0-9._~+/-]+=*/gi;

const maxPathLength = 256;

/**
 * The part of a request's target that may be logged: the path, in printable ASCII, cut at 256 characters. Removes
 * query, fragment and parameters (also if their delimiter is percent-encoded, however often), and user and host of an absolute form.
 */
export function loggedPath(target: string): string {
  if (target.length <= maxPathLength && plain.test(target)) return target;
  const path = target.slice(0, 4 * maxPathLength).replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
  const end = path.search(/[?#;]|%(?:25)*(?:3f|23|3b)/i);
  const bare = (end === -1 ? path : path.slice(0, end)).replace(/[^\x21-\x7e]/g, percentEncoded);
  return bare.length > maxPathLength ? `${bare.slice(0, maxPathLength)}...` : bare;
}

/** Returns the part of a request's target that may be kept in memory: as in the log, without what looks like a credential. */
export function keptTarget(target: string): string {
  // Nothing follows the name of a scheme in a plain one.
  return target.length <= maxPathLength && plain.test(target) ? target : redactLine(loggedPath(target));
}

/** The longest registered method has 17 characters. Over HTTP/2 and in checks, a method can be as long as a head. */
const maxMethodLength = 32;

/** Returns the method as it is logged. */
export function loggedMethod(method: string): string {
  return method.length > maxMethodLength ? `${method.slice(0, maxMethodLength)}...` : method;
}

const maxUserAgentLength = 256;

/**
 * Returns the User-Agent of a request as it is logged: at most 256 bytes, and without the credentials of the same request,
 * which a client may repeat there; null without one.
 */
export function loggedUserAgent(rawHeaders: HeaderList): string | null {
  let userAgent = headerValue(rawHeaders, "user-agent");
  if (userAgent === undefined) return null;
  for (const authorization of headerValues(rawHeaders, "authorization")) {
    const secret = authorization.slice(authorization.indexOf(" ") + 1).trim();
    if (secret !== "") userAgent = withoutSecret(userAgent, secret);
  }
  return userAgent.length > maxUserAgentLength ? `${userAgent.slice(0, maxUserAgentLength - 3)}...` : userAgent;
}

/** Searches no more than may be logged. */
function withoutSecret(text: string, secret: string): string {
  const searched = text.slice(0, maxUserAgentLength + 1 + secret.length);
  const clean = searched.replaceAll(secret, "[redacted]");
  // A secret may have been cut.
  return searched.length < text.length ? clean.slice(0, -secret.length) : clean;
}

/** Nearly all targets match, and are logged as they are. */
const plain = /^\/[\w\-./~]*$/;

function percentEncoded(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
}
