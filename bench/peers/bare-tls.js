// Node's TLS with nothing behind it: reads what comes, answers the first bytes of a connection, and keeps it open.
import { readFileSync } from "node:fs";
import { createServer } from "node:tls";

const [, , port, cert, key] = process.argv;

const server = createServer({ cert: readFileSync(cert), key: readFileSync(key), ALPNProtocols: ["h2"] }, (socket) => {
  socket.on("error", () => {}).on("data", () => {});
  socket.once("data", () => socket.write("answered"));
});
server.listen({ port: Number(port), host: "127.0.0.1", backlog: 4096 });
