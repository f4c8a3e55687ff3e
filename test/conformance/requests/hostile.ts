// What has fooled proxies before and no section forbids in so many words: names that two servers read as one, paths
// that two readers take for two places, and requests inside of requests.
import {
  chunked,
  declined,
  dropped,
  forwarded,
  kept,
  malformed,
  message,
  post,
  type RequestCase,
  token,
} from "./request-case.ts";

const get = (target: string): string => message("", `GET ${target} HTTP/1.1`);
const counted = (name: string, target: string): RequestCase => forwarded("paths: counted", name, get(target));
const ambiguous = (name: string, target: string): RequestCase => declined("paths: ambiguous", name, 400, get(target));
const nowhere = (name: string, target: string): RequestCase => declined("paths: no route", name, 404, get(target));
const smuggled = "GET /v2/smuggled HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n";
const inside = post(`Content-Length: ${smuggled.length}\r\n`, smuggled);

const names: readonly RequestCase[] = [
  malformed("underscores", "X_Forwarded_For", message("X_Forwarded_For: 1.2.3.4\r\n")),
  malformed("underscores", "Content_Length", message("Content_Length: 5\r\n")),
  malformed("underscores", "Transfer_Encoding", message("Transfer_Encoding: chunked\r\n")),
  malformed("underscores", "True_Client-IP", message("True_Client-IP: 1.2.3.4\r\n")),
  kept("underscores", "names that mean nothing", "SFDC_STACK_DEPTH: 1", "api_key: k", "_: x", "X_A: 1", "X-A: 2"),
  kept("underscores", "__proto__", "__proto__: x"),
  dropped(
    "underscores",
    "names in Connection, which mean no field",
    "Connection: content_length, X_Forwarded_For, True.Client.IP",
  ),
  forwarded("underscores", "a name in Connection takes no other field away", message("X-A: 1\r\nConnection: X_A\r\n"), {
    lines: [token, "X-A: 1"],
  }),
  dropped(
    "vouching fields",
    "several lines in any case",
    "Client-IP: 6.6.6.6",
    "CLIENT-IP: 7.7.7.7",
    "cf-connecting-ip: 6.6.6.6",
  ),
  dropped(
    "vouching fields",
    "named in Connection",
    "Connection: Client-IP, X-Real-IP",
    "Client-IP: 6.6.6.6",
    "X-Real-IP: 6.6.6.6",
  ),
  forwarded(
    "vouching fields",
    "as trailers, in any spelling",
    chunked("2\r\nhi\r\n0\r\nClient-IP: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\n\r\n"),
    { body: "hi" },
  ),
  kept("look-alikes", "Content-Length2", "Content-Length2: 5"),
  kept("look-alikes", "X-Transfer-Encoding", "X-Transfer-Encoding: chunked"),
  kept("look-alikes", "Content-Length in a value", "X: Content-Length: 5"),
  kept("overrides", "X-HTTP-Method-Override", "X-HTTP-Method-Override: DELETE"),
  kept("overrides", "its kin", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE"),
  dropped("overrides", "X-Original-URL and X-Rewrite-URL", "X-Original-URL: /v1/x", "x-rewrite-url: /v1/x"),
  malformed("overrides", "X.Original.URL", message("X.Original.URL: /v1/x\r\n")),
];

const smuggling: readonly RequestCase[] = [
  forwarded("smuggling", "a request as a body with a length", inside, { body: smuggled }),
  forwarded(
    "smuggling",
    "a request as a chunk",
    chunked(`${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`),
    { body: smuggled },
  ),
  forwarded("smuggling", "a request as the body of a GET", inside.replace("POST", "GET"), {
    line: "GET /v2/x HTTP/1.1",
    body: smuggled,
  }),
  malformed("smuggling", "CL.TE", post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nG")),
  malformed("smuggling", "TE.CL", post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", `5c\r\n${smuggled}`)),
  malformed(
    "smuggling",
    "TE.TE behind a tab",
    post("Transfer-Encoding: chunked\r\nTransfer-Encoding:\tx\r\n", "0\r\n\r\n"),
  ),
  malformed(
    "smuggling",
    "an encoding behind a fold of another field",
    post("X: a\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
  ),
  malformed("smuggling", "CL.0 with a sign", post("Content-Length: -0\r\n", smuggled)),
  malformed("smuggling", "a length behind NUL", post("Content-Length: 5\0\r\n", smuggled)),
  malformed("smuggling", "a target that ends the line", message("", "GET /v2/x HTTP/1.1\r HTTP/1.1")),
];

const paths: readonly RequestCase[] = [
  counted("upper case", "/V2/x"),
  counted("an empty segment before", "//v2/x"),
  counted("a dot segment before", "/./v2/x"),
  counted("an encoded name", "/%76%32/x"),
  ambiguous("encoded twice", "/%2576%2532/x"),
  ambiguous("parameters behind the version", "/v2;a=b/x"),
  counted("an encoded dot segment", "/%2e/v2/x"),
  ambiguous("a hash behind the route", "/v2/x#/../v1"),
  counted("climbing inside the route", "/v2/a/../x"),
  counted("bytes of a word in UTF-8", "/v2/%C3%A4"),
  counted("what a query says does not matter", "/v2/x?/../../v1/%2e%2e"),
  ambiguous("climbing into another route", "/v1/../v2/x"),
  ambiguous("an encoded slash behind a climb", "/v1/..%2fv2/x"),
  ambiguous("an encoded climb", "/v1/%2e%2e/v2/x"),
  ambiguous("an encoded backslash behind a climb", "/v1/..%5cv2/x"),
  ambiguous("a backslash behind a climb", "/v1/..\\v2/x"),
  ambiguous("NUL", "/v2/x%00"),
  ambiguous("CR LF", "/v2/x%0d%0aX:%20y"),
  ambiguous("a climb with parameters", "/v1/..;/v2/x"),
  ambiguous("an overlong slash", "/v2/..%c0%af"),
  ambiguous("an overlong dot", "/v2/%c0%ae%c0%ae/x"),
  ambiguous("a letter of a name as %uXXXX", "/v2/%u006cogin"),
  ambiguous("the route as %uXXXX", "/%u0076%u0032/x"),
  ambiguous("a full-width letter as %uXXXX", "/v2/%uff4cogin"),
  ambiguous("a climb as %UXXXX", "/v2/%U002e%U002e/v1/x"),
  ambiguous("a slash as %uXXXX", "/v1/..%u2215v2/x"),
  ambiguous("%uXXXX encoded again", "/v2/%25u006cogin"),
  ambiguous("%uXXXX under no route", "/x/%u0061"),
  ambiguous("a dot at the end of the route's name", "/v2./x"),
  ambiguous("a blank at the end of the route's name", "/v2%20/x"),
  counted("a dot at the end of a name behind the route", "/v2/x./y."),
  ambiguous("climbing out of the root", "/../v2/x"),
  ambiguous("climbing out of the route", "/v2/../x"),
  ambiguous("encoded five times", "/%252525252576%32/x"),
  nowhere("a name that begins like a route's", "/v20/x"),
  nowhere("the root", "/"),
  nowhere("another place", "/admin/v2x"),
  nowhere("the route in a query", "/x?/v2/x"),
];

export const hostile: readonly RequestCase[] = [...names, ...smuggling, ...paths];
