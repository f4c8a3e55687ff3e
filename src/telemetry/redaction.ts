// Keeps credentials out of the log. Nothing of the gateway logs a token; this is the net below it, and it is laid over
// the finished line so that no key, nesting or error text can slip past a list of paths.

/** Whether there may be anything to hide in a line with this in it. */
export function isSuspicious(text: string): boolean {
  return suspicious.test(text);
}

/** Hides the values of the fields that carry credentials, under any key of any depth, and bearer tokens in any text. */
export function redactLine(line: string): string {
  if (!isSuspicious(line)) return line;
  return line.replace(secretKeys, '"$1":"[redacted]"').replace(credentials, "$1 [redacted]");
}

// Nearly every line is clean: one look at those is a third of the cost of two.
const suspicious = /authorization"|cookie"|bearer|basic/i;

// Neither pattern can take a quotation mark or a backslash that belongs to the line's JSON, so it stays JSON.
const secretKeys = /"((?:proxy-)?authorization|cookie|set-cookie)":(?:"(?:[^"\\]|\\.)*"|\[[^\]]*\])/gi;
const credentials = /\b(bearer|basic)(?: |%20|\\t)+[a-z0-9._~+/-]+=*/gi;

const maxPathLength = 256;

/**
 * What of a request's target may be logged: the path, without query, fragment or parameters (also when their mark is
 * percent-encoded), without the user and host of an absolute form, in printable ASCII, cut at 256 characters.
 */
export function loggedPath(target: string): string {
  if (target.length <= maxPathLength && plain.test(target)) return target;
  const path = target.slice(0, 4 * maxPathLength).replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
  const end = path.search(/[?#;]|%(?:3f|23|3b)/i);
  const bare = (end === -1 ? path : path.slice(0, end)).replace(/[^\x21-\x7e]/g, percentEncoded);
  return bare.length > maxPathLength ? `${bare.slice(0, maxPathLength)}...` : bare;
}

/** Nearly all are, and those need no second look. */
const plain = /^\/[\w\-./~]*$/;

function percentEncoded(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
}
