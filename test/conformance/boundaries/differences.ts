// What llhttp refuses although RFC 9112 and RFC 9110 allow it, and we read it. Nothing here moves the boundary between two
// messages. What servers refuse is told in servers.ts.

export interface Difference {
  readonly refuses: string;
  readonly isIn: (bytes: string) => boolean;
}

const has =
  (pattern: RegExp) =>
  (bytes: string): boolean =>
    pattern.test(bytes);

export const requestDifferences: readonly Difference[] = [
  // RFC 9110, 2.5: a higher minor version is processed as the highest that is known.
  { refuses: "HTTP/1.2 to HTTP/1.9", isIn: has(/ HTTP\/1\.[2-9]\r\n/) },
  // RFC 9110, 7.8: a server may ignore it, and then HTTP goes on.
  { refuses: "what is behind an Upgrade with a body", isIn: has(/^upgrade:/im) },
];

export const responseDifferences: readonly Difference[] = [
  { refuses: "HTTP/1.2 to HTTP/1.9", isIn: has(/^HTTP\/1\.[2-9] /m) },
  // RFC 9112, 2.2: it may be taken for the end of a line. The connection ends with the response.
  { refuses: "a single LF behind a line of a head", isIn: has(/[^\r]\n/) },
  // RFC 9112, 6.3: equal lengths may be taken for one.
  {
    refuses: "the same length twice",
    isIn: has(/^content-length:[\t ]*0*(\d+)[\t ]*\r?\n(?:.*\r?\n)*?content-length:[\t ]*0*\1[\t ]*\r?$/im),
  },
  { refuses: "a final response behind an interim one of HTTP/1.0", isIn: has(/^HTTP\/1\.0 1/m) },
  // RFC 9112, 7.1.1: blanks there are bad, and are to be taken; extensions that nobody knows are to be ignored.
  {
    refuses: "blanks behind a chunk's size, and odd extensions",
    isIn: has(/\r\n[0-9a-f]+(?:[ \t]|;)/i),
  },
  // RFC 9110, 6.5.1: it must not be sent, and says nothing. We drop all trailers.
  {
    refuses: "a length or an encoding among trailers",
    isIn: has(/\r\n0+\r\n(?:.+\r\n)*(?:content-length|transfer-encoding)/i),
  },
];
