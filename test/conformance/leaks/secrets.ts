// What must not be found where it does not belong: marked secrets of every kind a request can carry, and the patterns
// of what would speak of the machine or of the code.
import { fileURLToPath } from "node:url";

/** In every secret below, so one look finds them all. */
export const mark = "s3cr3t";

export const forwardedAddress = "203.0.113.77";

/** Whole lines, none of which is hop-by-hop framing. X-Request-Id is no secret: it comes back. */
const secretFields = [
  `Cookie: session=${mark}-cookie`,
  `Proxy-Authorization: Basic ${mark}+proxy==`,
  `X-Api-Key: ${mark}-key`,
  `Referer: http://site.test/?token=${mark}-referer`,
  `X-Forwarded-For: ${forwardedAddress}`,
  `Forwarded: for=${forwardedAddress};host=${mark}-host`,
]
  .map((line) => `${line}\r\n`)
  .join("");

/** The same request with a secret in every place that has room for one. Bytes that are no request stay as they are. */
export function withSecrets(send: string): string {
  return send
    .replaceAll("secret-token", `${mark}-token`)
    .replace(/^(\S+ \/\S*) HTTP/, `$1;jsessionid=${mark}-parameter?api_key=${mark}-query&access_token=${mark}#f HTTP`)
    .replace(/^([A-Z]+ \S+ HTTP\/1\.1\r\n)/, `$1${secretFields}`);
}

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** What an answer to a client never holds, besides secrets: addresses, paths of files, stacks, codes of the system. */
const innards: readonly (readonly [what: string, pattern: RegExp])[] = [
  ["a secret", new RegExp(mark, "i")],
  ["an address", /\b\d{1,3}(?:\.\d{1,3}){3}\b|::1\b|localhost/],
  ["a path of a file", /\/[\w.-]+\.[jt]s\b|\.[jt]s:\d|node_modules|\/(?:home|tmp|root|usr|etc|work)\//],
  ["a stack", /\n\s+at |\bat .+:\d+:\d+/],
  ["a code of the system", /\bE(?:CONN|PIPE|TIMEDOUT|NOENT|ACCES|ADDR|AI_)[A-Z]*\b|UND_ERR|HPE_|ERR_/],
  ["the folder it runs from", new RegExp(root.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))],
];

/** What is in the text and should not be; empty if all is well. */
export function leaksOf(text: string, besides: readonly string[] = []): string[] {
  return innards.filter(([what, pattern]) => !besides.includes(what) && pattern.test(text)).map(([what]) => what);
}
