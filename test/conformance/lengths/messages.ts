// What a client says of the length of its request's body, by each version of HTTP and by the plugin, and what the upstream is
// told of it: one table.

export type Way = "HTTP/1.1" | "HTTP/1.1 over TLS" | "HTTP/1.0" | "HTTP/2" | "plugin" | "plugin over HTTP/2";

export interface Message {
  readonly method: string;
  /** Null: the head ends the request. Empty: over HTTP/2, an empty DATA frame does. */
  readonly body: string | null;
  /** `chunks`: over HTTP/2, which has none, DATA frames without a length. */
  readonly says: "nothing" | "length" | "chunks";
}

/** The upstream's Content-Length, "chunks", "" for neither; null: the way cannot carry such a message. */
export type Framing = string | null;

export interface Row extends Message {
  readonly one: Framing;
  readonly oneZero: Framing;
  readonly two: Framing;
  readonly plugin: Framing;
  readonly pluginTwo: Framing;
}

const small = '{"amount":"1.00"}';
const length = `${small.length}`;

const withoutContent = (method: string, framings: Omit<Row, keyof Message>): Row => ({
  ...{ method, body: null, says: "nothing" },
  ...framings,
});

/**
 * What HTTP/1.1 carries stays as it is; HTTP/1.0 has no chunks, and Fastify refuses a QUERY without content. In the plugin,
 * undici says of an empty body what its method asks for, however it came.
 */
export const rows: readonly Row[] = [
  ...["GET", "HEAD", "DELETE", "OPTIONS"].map((method) =>
    withoutContent(method, { one: "", oneZero: "", two: "", plugin: "", pluginTwo: "" }),
  ),
  ...["POST", "PUT", "PATCH"].map((method) =>
    withoutContent(method, { one: "", oneZero: "", two: "0", plugin: "0", pluginTwo: "0" }),
  ),
  withoutContent("QUERY", { one: "", oneZero: "", two: "0", plugin: null, pluginTwo: null }),
  withoutContent("PROPFIND", { one: "", oneZero: "", two: "", plugin: "0", pluginTwo: "0" }),
  ...["POST", "PUT", "PATCH", "QUERY"].flatMap((method): readonly Row[] => {
    const noContent = method === "QUERY" ? null : "0";
    return [
      {
        ...{ method, body: null, says: "length" },
        ...{ one: "0", oneZero: "0", two: "0", plugin: noContent, pluginTwo: noContent },
      },
      {
        ...{ method, body: "", says: "length" },
        ...{ one: "0", oneZero: "0", two: "0", plugin: noContent, pluginTwo: noContent },
      },
      {
        ...{ method, body: "", says: "chunks" },
        ...{ one: "chunks", oneZero: null, two: "0", plugin: noContent, pluginTwo: noContent },
      },
    ];
  }),
  { method: "GET", body: "", says: "length", one: "0", oneZero: "0", two: "0", plugin: "", pluginTwo: "" },
  { method: "GET", body: "", says: "chunks", one: "chunks", oneZero: null, two: "", plugin: "", pluginTwo: "" },
  ...["POST", "PUT", "PATCH", "QUERY", "GET", "DELETE", "PROPFIND"].flatMap((method): readonly Row[] => [
    {
      ...{ method, body: small, says: "length" },
      ...{ one: length, oneZero: length, two: length, plugin: length, pluginTwo: length },
    },
    {
      ...{ method, body: small, says: "chunks" },
      ...{ one: "chunks", oneZero: null, two: length, plugin: "chunks", pluginTwo: length },
    },
  ]),
];

export const framingOf = (row: Row, way: Way): Framing =>
  ({
    "HTTP/1.1": row.one,
    "HTTP/1.1 over TLS": row.one,
    "HTTP/1.0": row.oneZero,
    "HTTP/2": row.two,
    plugin: row.plugin,
    "plugin over HTTP/2": row.pluginTwo,
  })[way];
