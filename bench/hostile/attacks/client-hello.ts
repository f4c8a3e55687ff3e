// A ClientHello as bytes, recorded from Node's own client.
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { connect } from "node:tls";

export async function clientHello(): Promise<Buffer> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: "127.0.0.1", servername: "localhost", ALPNProtocols: ["h2", "http/1.1"] });
  client.on("error", () => {});
  const [socket] = await once(server, "connection");
  const [hello] = await once(socket, "data");
  client.destroy();
  socket.destroy();
  server.close();
  return hello;
}

/** The same with an extension for padding (RFC 7685) of as many bytes. */
export function helloWith(hello: Buffer, bytes: number): Buffer {
  const extension = Buffer.alloc(4 + bytes);
  extension.writeUInt16BE(21, 0);
  extension.writeUInt16BE(bytes, 2);
  const grown = Buffer.concat([hello, extension]);
  grown.writeUInt16BE(hello.readUInt16BE(3) + extension.length, 3);
  grown.writeUIntBE(hello.readUIntBE(6, 3) + extension.length, 6, 3);
  const at = extensionsAt(hello);
  grown.writeUInt16BE(hello.readUInt16BE(at) + extension.length, at);
  return grown;
}

/** Where the length of the extensions stands. */
function extensionsAt(hello: Buffer): number {
  const session = 5 + 4 + 2 + 32;
  const suites = session + 1 + hello.readUInt8(session);
  const compression = suites + 2 + hello.readUInt16BE(suites);
  return compression + 1 + hello.readUInt8(compression);
}
