// A backend that knows nothing of being told to end: SIGTERM is its end, in the middle of whatever it does. It answers an
// upload with its length, /v2/slow in pieces over more than four seconds, and everything else at once.
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const server = createServer(async (request, response) => {
  let bytes = 0;
  for await (const chunk of request) bytes += chunk.length;
  if (request.url === "/v2/slow") {
    for (let piece = 0; piece < 12; piece += 1) {
      response.write(`piece ${piece}\n`);
      await sleep(380);
    }
  }
  response.end(`${bytes} bytes`);
});
server.listen(Number(process.argv[2]), "127.0.0.1", () => process.stdout.write("listening\n"));
