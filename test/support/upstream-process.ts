// An upstream that can really die: a process of its own, killed without notice and started again on the same port.
import { once } from "node:events";
import { freePort } from "./free-port.ts";
import { type ProcessGroup, startProcessGroup } from "./process-group.ts";

const script = `
  require("http").createServer((req, res) => req.resume().on("end", () => res.end("ok")))
    .listen(Number(process.argv[1]), "127.0.0.1", () => console.log("listening"));
`;

export class UpstreamProcess {
  #group: ProcessGroup<"pipe", "inherit"> | null = null;
  #port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Resolves when it listens; always on the port of the first time, which nobody is given while it is dead. */
  async start(): Promise<void> {
    if (this.#port === 0) this.#port = await freePort();
    const args = ["-e", script, `${this.#port}`];
    this.#group = startProcessGroup(process.execPath, args, { stderr: "inherit" });
    await once(this.#group.child.stdout, "data");
  }

  /** SIGKILL: nothing is flushed and nobody is told. Resolves when it is gone. */
  async kill(): Promise<void> {
    await this.#group?.end();
  }
}
