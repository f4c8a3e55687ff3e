// An upstream that can really die: a process of its own, killed without notice and started again on the same port.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

const script = `
  require("http").createServer((req, res) => req.resume().on("end", () => res.end("ok")))
    .listen(Number(process.argv[1]), "127.0.0.1", function () { console.log(this.address().port); });
`;

export class UpstreamProcess {
  #child: ChildProcess | null = null;
  #port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Resolves when it listens; always on the port of the first time. */
  async start(): Promise<void> {
    const child = spawn(process.execPath, ["-e", script, `${this.#port}`], { stdio: ["ignore", "pipe", "inherit"] });
    this.#child = child;
    const [line] = await once(child.stdout, "data");
    this.#port = Number(String(line));
  }

  /** SIGKILL: nothing is flushed and nobody is told. Resolves when it is gone. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }
}
