// What becomes of a message, whatever carries it: one table for all carriers. A carrier on which it is otherwise stands in
// the row with what becomes of it there, and why.

import type { Asked } from "../../support/carriers.ts";

export type Carrier = "HTTP/1.1" | "HTTP/2" | "auth-request" | "ext-authz" | "gRPC" | "plugin" | "plugin over HTTP/2";

export interface Outcome {
  /** `reset`: of the stream, with PROTOCOL_ERROR. `absent`: the carrier cannot bring such a message. */
  readonly status: number | "reset" | "absent";
  /** Of the quota. */
  readonly spent: 0 | 1;
  /** The answer is about a call that names no request, so no quota is shown. */
  readonly isOfCall?: true;
}

interface Exception extends Outcome {
  readonly why: string;
}

export interface MessageRule extends Pick<Asked, "method" | "target" | "scheme" | "hosts" | "fields"> {
  readonly name: string;
  readonly outcome: Outcome;
  readonly except?: Partial<Record<Carrier, Exception>>;
}

const forwarded: Outcome = { status: 200, spent: 1 };
/** Refused as a request: under a route it spends quota. */
const refused = (status: number): Outcome => ({ status, spent: 1 });
/** Refused as bytes that are no request. */
const unread = (status: number): Outcome => ({ status, spent: 0 });

const but = (outcome: Outcome, why: string): Exception => ({ ...outcome, why });
const ofCall = (status: number, why: string): Exception => ({ status, spent: 0, isOfCall: true, why });
const reset = (why: string): Exception => ({ status: "reset", spent: 0, why });
const absent = (why: string): Exception => ({ status: "absent", spent: 0, why });

type Exceptions = NonNullable<MessageRule["except"]>;

const overHttp2 = (exception: Exception): Exceptions => ({ "HTTP/2": exception, "plugin over HTTP/2": exception });
const malformed = reset("RFC 9113, 8.1.1: a malformed request is an error of its stream");
const hasOwnSyntax = (status: number): Exceptions => ({
  "ext-authz": ofCall(status, "the call itself has this request line, and cannot be read"),
});
const framing: Exceptions = {
  "auth-request": ofCall(400, "it frames the call itself, which cannot be read"),
  "ext-authz": ofCall(400, "it frames the call itself, which cannot be read"),
};
const readByEnvoy = "Envoy has read the head and carries it itself; the fields are a map by name";

const ofApp = but(unread(200), "the app has it");
const noContent = but(refused(400), "Fastify refuses a QUERY without content");
const resetByNode: Exceptions = { "plugin over HTTP/2": reset("Node resets the stream of a malformed request") };
const droppedByNode: Exceptions = { "plugin over HTTP/2": but(forwarded, "Node drops a field that is malformed") };

const methods: readonly MessageRule[] = [
  ...["get", "gEt", "head", "FOO", "PRI", "GE", "GETS", "M-SEARC", "x".repeat(2_000)].map(
    (method): MessageRule => ({
      name: `the method ${method.slice(0, 20)}, which Node does not know`,
      method,
      outcome: unread(501),
      except: { ...hasOwnSyntax(501) },
    }),
  ),
  {
    name: "a method that is no token",
    method: "G(T",
    outcome: unread(400),
    except: {
      ...overHttp2(malformed),
      ...hasOwnSyntax(400),
      "auth-request": ofCall(400, "no request is named"),
      gRPC: but(unread(501), "the message has the method as a text, of which only those that Node knows are methods"),
    },
  },
  { name: "TRACE", method: "TRACE", outcome: refused(501) },
  { name: "CONNECT", method: "CONNECT", target: "api.test:443", outcome: unread(501), except: hasOwnSyntax(501) },
  {
    name: "QUERY",
    method: "QUERY",
    outcome: forwarded,
    except: { plugin: noContent, "plugin over HTTP/2": noContent },
  },
  { name: "M-SEARCH", method: "M-SEARCH", outcome: forwarded },
];

const byIngress = but(forwarded, "some ingresses accept such a target, and carry the request themselves");
const hasNoScheme = absent("only HTTP/2 has the scheme in a field of its own");
const onlyHttp2: Exceptions = Object.fromEntries(
  (["HTTP/1.1", "auth-request", "ext-authz", "gRPC", "plugin"] as const).map((carrier) => [carrier, hasNoScheme]),
);
const schemes = ["http://evil.test/x?", "https://evil.test/v2/", "https:", "ht tps", "1http", "x\u00e4"];

const targets: readonly MessageRule[] = [
  ...["/v2/\xe4", "/v2/x?\xc3\xa4", "/v2/\xff/x"].map(
    (target): MessageRule => ({
      name: `bytes above ASCII in the target ${target}`,
      target,
      outcome: unread(400),
      except: { ...hasOwnSyntax(400), "auth-request": byIngress, gRPC: byIngress },
    }),
  ),
  ...["/v2/x y", "/v2/x\ty", "/v2/ HTTP/1.1"].map(
    (target): MessageRule => ({
      name: `a blank in the target ${JSON.stringify(target)}`,
      target,
      outcome: unread(400),
      except: { ...overHttp2(malformed), ...hasOwnSyntax(400) },
    }),
  ),
  {
    name: "DEL in the target",
    target: "/v2/\x7f",
    outcome: unread(400),
    except: {
      ...overHttp2(malformed),
      ...hasOwnSyntax(400),
      "auth-request": ofCall(400, "the field of the call that names the target is malformed"),
    },
  },
  {
    name: "a target without its slash",
    target: "v2/x",
    outcome: unread(400),
    except: {
      ...overHttp2(malformed),
      "ext-authz": ofCall(400, "the call itself has this request line, and cannot be read"),
    },
  },
  {
    name: "GET *",
    target: "*",
    outcome: unread(400),
    except: { ...overHttp2(malformed), "ext-authz": ofCall(404, "the path of the call begins with /ext-authz/") },
  },
  {
    name: "a URL as the target",
    target: "https://api.test/v2/x",
    outcome: forwarded,
    except: {
      ...overHttp2(malformed),
      "auth-request": but(unread(400), "X-Original-URI takes no URL; X-Original-URL does"),
      "ext-authz": ofCall(404, "the path of the call begins with /ext-authz/"),
    },
  },
  {
    name: "a URL of another scheme as the target",
    target: "ftp://api.test/v2/x",
    outcome: unread(400),
    except: {
      ...overHttp2(malformed),
      "ext-authz": ofCall(404, "the path of the call begins with /ext-authz/"),
    },
  },
  {
    name: "a URL with a fragment behind its authority",
    target: "http://api.test#/v2/x",
    outcome: unread(400),
    except: { ...overHttp2(malformed), ...hasOwnSyntax(400) },
  },
  ...["ftp", ...schemes].map(
    (scheme): MessageRule => ({
      name: `the scheme ${scheme}`,
      scheme,
      outcome: unread(400),
      except: scheme === "ftp" ? onlyHttp2 : { ...onlyHttp2, ...resetByNode },
    }),
  ),
  ...["HTTPS", "http"].map(
    (scheme): MessageRule => ({ name: `the scheme ${scheme}`, scheme, outcome: forwarded, except: onlyHttp2 }),
  ),
  {
    name: "OPTIONS *",
    method: "OPTIONS",
    target: "*",
    outcome: unread(204),
    except: { "ext-authz": ofCall(404, "the path of the call begins with /ext-authz/") },
  },
  { name: "a target of 8,193 bytes", target: `/v2/${"x".repeat(8_189)}`, outcome: refused(414) },
  { name: "a path that is ambiguous", target: "/v1/..%2fv2/x", outcome: refused(400) },
  {
    name: "a path under no route",
    target: "/health",
    outcome: unread(404),
    except: { plugin: ofApp, "plugin over HTTP/2": ofApp },
  },
];

const hosts: readonly MessageRule[] = [
  { name: "no Host", hosts: [], outcome: refused(400), except: resetByNode },
  { name: "two Hosts", hosts: ["api.test", "b.test"], outcome: refused(400), except: { gRPC: absent(readByEnvoy) } },
  {
    name: "the same Host twice",
    hosts: ["api.test", "api.test"],
    outcome: refused(400),
    except: {
      ...overHttp2(but(forwarded, "RFC 9113, 8.3.1: a Host beside the authority may repeat it")),
      gRPC: absent(readByEnvoy),
    },
  },
  ...[
    ["api.test", "API.test"],
    ["api.test", "api.test:443"],
    ["Api.Test:443", "api.test"],
  ].map(
    (hosts): MessageRule => ({
      name: `${hosts[0]}, and ${hosts[1]} as the Host beside it`,
      hosts,
      outcome: refused(400),
      except: {
        ...overHttp2(but(forwarded, "RFC 9113, 8.3.1: they are normalized before they are compared")),
        gRPC: absent(readByEnvoy),
      },
    }),
  ),
  ...[
    ["api.test", "api.test:80"],
    ["api.test:443", "api.test:8443"],
    ["api.test", "api.test."],
    ["api.test", "api.test:443:443"],
  ].map(
    (hosts): MessageRule => ({
      name: `${hosts[0]}, and ${hosts[1]} as another Host`,
      hosts,
      outcome: refused(400),
      except: { gRPC: absent(readByEnvoy) },
    }),
  ),
  {
    name: "the same Host three times",
    hosts: ["api.test", "api.test", "api.test"],
    outcome: refused(400),
    except: { ...resetByNode, gRPC: absent(readByEnvoy) },
  },
  ...["me@api.test", "a, b", "api.test/v2", "api test", "\xe4pi.test", ""].map(
    (host): MessageRule => ({
      name: `the Host ${JSON.stringify(host)}`,
      hosts: [host],
      outcome: refused(400),
      except: resetByNode,
    }),
  ),
];

const field = (
  name: string,
  fields: MessageRule["fields"] & object,
  outcome: Outcome,
  except?: Exceptions,
): MessageRule => ({
  name,
  fields,
  outcome,
  ...(except === undefined ? {} : { except }),
});
/** Fields as lines. */
const lines = (...texts: string[]) =>
  texts.map((text) => [text.slice(0, text.indexOf(":")), text.slice(text.indexOf(":") + 2)] as const);
const cookies = (name: string, ...values: string[]): MessageRule =>
  field(name, lines(...values.map((value) => `cookie: ${value}`)), forwarded, { gRPC: absent(readByEnvoy) });
const many = (count: number) => Array.from({ length: count }, (_, i) => [`x-${i}`, "y"] as const);
const notOverHttp2 = overHttp2(reset("RFC 9113, 8.2.2: a field of the connection makes the request malformed"));

const fields: readonly MessageRule[] = [
  field("an underscore in a name", [["x_forwarded_for", "1.2.3.4"]], refused(400)),
  field("an underscore in a name that means nothing", [["sfdc_stack_depth", "1"]], forwarded),
  field("every other character of a token", [["a!#$%&'*+.^_`|~b", "1"]], forwarded),
  field("an underscore in the name of another field with an address", [["client_ip", "1.2.3.4"]], refused(400)),
  field("a name that some servers read as another", [["x-original.url", "/v2/y"]], refused(400)),
  field("another expectation", [["expect", "something"]], refused(417)),
  field("two tokens", lines("authorization: Bearer a", "authorization: Bearer b"), refused(401), {
    gRPC: absent(readByEnvoy),
  }),
  field("a length that is none", [["content-length", "1x"]], unread(400), {
    ...overHttp2(malformed),
    ...framing,
    gRPC: but(refused(400), "the message has no framing of its own, so the length is a field like others"),
  }),
  field("two lengths", lines("content-length: 0", "content-length: 0"), unread(400), {
    ...overHttp2(malformed),
    ...framing,
    gRPC: absent(readByEnvoy),
  }),
  field("a length and an encoding", lines("content-length: 0", "transfer-encoding: chunked"), unread(400), {
    ...overHttp2(malformed),
    ...framing,
    gRPC: but(refused(400), "the message has no framing of its own, so both are fields like others"),
  }),
  field("another encoding", [["transfer-encoding", "gzip, chunked"]], refused(501), notOverHttp2),
  field("Connection", [["connection", "close"]], forwarded, notOverHttp2),
  field("Keep-Alive", [["keep-alive", "timeout=5"]], forwarded, notOverHttp2),
  field("TE", [["te", "gzip"]], forwarded, notOverHttp2),
  field("TE of trailers", [["te", "trailers"]], forwarded),
  field("TE of trailers with a capital", [["te", "Trailers"]], forwarded),
  field("a control byte in a value", [["x-odd", "a\x01b"]], unread(400), {
    "auth-request": ofCall(400, "the fields are those of the call, which cannot be read"),
    "ext-authz": ofCall(400, "the fields are those of the call, which cannot be read"),
    gRPC: but(forwarded, readByEnvoy),
    ...droppedByNode,
  }),
  field("a NUL in a value", [["x-odd", "a\0b"]], unread(400), {
    ...overHttp2(malformed),
    "auth-request": ofCall(400, "the fields are those of the call, which cannot be read"),
    "ext-authz": ofCall(400, "the fields are those of the call, which cannot be read"),
    gRPC: but(forwarded, readByEnvoy),
    ...droppedByNode,
  }),
  field("a blank behind a value", [["x-odd", "a "]], forwarded, {
    "HTTP/2": but(unread(400), "in HTTP/1.1 it is no part of the value, in HTTP/2 it would be"),
  }),
  field("201 fields", many(201), unread(431), {
    "auth-request": but(forwarded, "an ingress adds fields of its own, so a call may have more"),
    "ext-authz": but(forwarded, "an ingress adds fields of its own, so a call may have more"),
    gRPC: but(forwarded, "an ingress adds fields of its own, so a call may have more"),
    "plugin over HTTP/2": absent("Node's bound is 128 fields, and the reset says ENHANCE_YOUR_CALM"),
  }),
  field("1,001 fields", many(1_001), unread(431), {
    ...overHttp2(absent("its block is larger than a frame: transport/http2-frames.test.ts")),
    "auth-request": ofCall(431, "it is the call that has too many"),
    "ext-authz": ofCall(431, "it is the call that has too many"),
    gRPC: ofCall(431, "such a message is not read to its end"),
  }),
  field("an empty cookie", [["cookie", ""]], forwarded),
  cookies("an empty cookie beside others", "a=1", "", "b=2"),
  cookies("an empty cookie behind another", "a=1", ""),
  cookies("an empty cookie before another", "", "b=2"),
];

export const messageRules: readonly MessageRule[] = [...methods, ...targets, ...hosts, ...fields];
