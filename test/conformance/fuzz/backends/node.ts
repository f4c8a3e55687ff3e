// Node's own server: tells every field as it came, and the body.
import { type RealServer, type SeenRequest, startBackend } from "./backend.ts";

const script = `
const http = require("node:http");
const tell = (seen) => process.stdout.write(Buffer.from(JSON.stringify(seen) + "\\n", "latin1"));
const server = http.createServer({ requireHostHeader: false, keepAliveTimeout: 60000 }, (req, res) => {
  const chunks = [];
  req.on("data", (chunk) => chunks.push(chunk));
  req.on("error", () => {});
  const port = req.socket.remotePort;
  req.socket.current = req;
  req.on("end", () => {
    res.setHeader("X-Seen", req.headers["x-request-id"] || "");
    res.end("ok");
  });
  req.on("close", () => tell({
    port,
    line: req.method + " " + req.url + " HTTP/" + req.httpVersion,
    rawHeaders: req.rawHeaders,
    body: req.complete ? Buffer.concat(chunks).toString("latin1") : null,
  }));
});
server.on("checkContinue", (req, res) => server.emit("request", req, res));
server.on("clientError", (error, socket) => {
  // Not if it is in the body of a request that is told anyway.
  const isNew = socket.current === undefined || socket.current.complete;
  if (error.code !== "ECONNRESET" && isNew) tell({ port: socket.remotePort, line: null, rawHeaders: [], body: null });
  socket.end("HTTP/1.1 400 Bad Request\\r\\nConnection: close\\r\\nContent-Length: 0\\r\\n\\r\\n");
});
server.listen(Number(process.argv[2]), "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
`;

interface Line {
  readonly port: number;
  readonly line: string | null;
  readonly rawHeaders: readonly string[];
  readonly body: string | null;
}

export const nodeServer: RealServer = {
  name: "Node",
  debianPackage: "",
  isInstalled: () => true,
  start: () => {
    let port = 0;
    return startBackend({
      command: process.execPath,
      args: (folder) => [`${folder}/config`, `${port}`],
      files: (_folder, free) => {
        port = free;
        return { config: script };
      },
      logsToOutput: true,
      shownAs: (fields) => fields,
      readLine,
    });
  },
};

function readLine(text: string): SeenRequest {
  const { port, line, rawHeaders, body }: Line = JSON.parse(text);
  const fields = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${rawHeaders[i + 1]}`] : []));
  const id = fields.find((field) => field.startsWith("X-Request-Id: "))?.slice("X-Request-Id: ".length) ?? "";
  return { id, port, line, fields, body };
}
