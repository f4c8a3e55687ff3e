// Node's module for HTTP/1, loaded by `require`: an import reads all its properties, and the one named WebSocket then
// loads a whole HTTP client, which is never used here and takes 14 MiB and 40 ms.
import { createRequire } from "node:module";

type NodeHttp = typeof import("node:http");

export const { createServer, request } = createRequire(import.meta.url)("node:http") as NodeHttp;
