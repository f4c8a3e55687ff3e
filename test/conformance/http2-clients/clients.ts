// Clients of HTTP/2 that others wrote. Each makes the same visit: 20 GETs at once, an upload, a large download, and 8 GETs more.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:http2";
import { fileURLToPath } from "node:url";
import got from "got";
import { Agent, request } from "undici";
import type { Cleanup } from "../../support/cleanup.ts";
import { answerOf } from "../../support/http2-client.ts";

export interface Visit {
  /** In any order. */
  readonly statuses: readonly number[];
  /** What the upload was answered with. */
  readonly echo: string;
  readonly largeBytes: number;
}

export interface Stop {
  readonly port: number;
  readonly ca: string;
  /** With the bytes of `upload`. */
  readonly bodyFile: string;
  readonly cleanup: Cleanup;
}

export interface Http2TestClient {
  readonly name: string;
  /** What to install where it is missing. */
  readonly debianPackage: string;
  readonly isInstalled: () => boolean;
  readonly visit: (stop: Stop) => Promise<Visit>;
}

const first = Array.from({ length: 20 }, (_, i) => `/v2/x?${i}`);
const last = first.slice(0, 8);
export const token = "Bearer t";

const starts = (program: string): boolean => spawnSync(program, ["--version"]).status === 0;

/** Runs a program to its end. Returns what it wrote; fails if it did. */
async function output(cleanup: Cleanup, program: string, args: readonly string[]): Promise<string> {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  cleanup(() => child.kill());
  let [text, errors] = ["", ""];
  child.stdout.setEncoding("latin1").on("data", (part) => (text += part));
  child.stderr.setEncoding("latin1").on("data", (part) => (errors += part));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${program} exited with ${code}: ${text.slice(-2_000)}${errors.slice(-2_000)}`);
  return text;
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

/** The visit of a client that is a function. */
export async function visitBy(ask: (path: string, body?: Buffer) => Promise<Answer>): Promise<Visit> {
  const begun = await Promise.all(first.map((path) => ask(path)));
  const echo = await ask("/v2/echo", upload);
  const large = await ask("/v2/large");
  const ended = await Promise.all(last.map((path) => ask(path)));
  const statuses = [...begun, echo, large, ...ended].map(({ status }) => status);
  return { statuses, echo: echo.body, largeBytes: large.body.length };
}

const nodeClient: Http2TestClient = {
  name: "node:http2",
  debianPackage: "",
  isInstalled: () => true,
  visit: async ({ port, ca, cleanup }) => {
    const session = cleanup(connect(`https://localhost:${port}`, { ca }));
    return visitBy((path, body) => {
      const method = body === undefined ? "GET" : "POST";
      const stream = session.request({ ":path": path, ":method": method, authorization: token });
      stream.end(body);
      return answerOf(stream);
    });
  },
};

const undiciClient: Http2TestClient = {
  name: "undici",
  debianPackage: "",
  isInstalled: () => true,
  visit: async ({ port, ca, cleanup }) => {
    const agent = cleanup(new Agent({ allowH2: true, connections: 1, connect: { ca } }));
    return visitBy(async (path, body) => {
      const method = body === undefined ? "GET" : "POST";
      const shared = { dispatcher: agent, responseHeaders: "raw", headers: { authorization: token } } as const;
      const response = await request(`https://localhost:${port}${path}`, { ...shared, method, body: body ?? null });
      // Names are in lower case over HTTP/2 alone.
      if (!Object.values(response.headers).map(String).includes("ratelimit-limit")) throw new Error("not over HTTP/2");
      return { status: response.statusCode, body: await response.body.text() };
    });
  },
};

const gotClient: Http2TestClient = {
  name: "got",
  debianPackage: "",
  isInstalled: () => true,
  visit: ({ port, ca }) =>
    visitBy(async (path, body) => {
      const response = await got(`https://localhost:${port}${path}`, {
        http2: true,
        https: { certificateAuthority: ca },
        headers: { authorization: token },
        throwHttpErrors: false,
        retry: { limit: 0 },
        ...(body === undefined ? {} : { method: "POST", body }),
      });
      if (response.httpVersion !== "2.0") throw new Error(`HTTP/${response.httpVersion}`);
      return { status: response.statusCode, body: response.body };
    }),
};

const curl: Http2TestClient = {
  name: "curl",
  debianPackage: "curl",
  isInstalled: () => starts("curl"),
  visit: async ({ port, bodyFile, cleanup }) => {
    const statuses: number[] = [];
    const ask = async (paths: readonly string[], ...more: string[]): Promise<string> => {
      const form = "\n%{http_version} %{http_code}\n";
      const urls = paths.map((path) => `https://127.0.0.1:${port}${path}`);
      const shared = ["-sk", "--http2", "--parallel", "-w", form, "-H", `Authorization: ${token}`, ...more];
      const text = await output(cleanup, "curl", [...shared, ...urls]);
      const results = [...text.matchAll(/^2 (\d+)$/gm)].map(([, status]) => Number(status));
      if (results.length !== paths.length) throw new Error(`not all over HTTP/2: ${text.slice(-500)}`);
      statuses.push(...results);
      return text.slice(0, text.lastIndexOf("\n2 "));
    };
    await ask(first);
    const echo = await ask(["/v2/echo"], "--data-binary", `@${bodyFile}`);
    const large = await ask(["/v2/large"]);
    await ask(last);
    return { statuses, echo, largeBytes: large.length };
  },
};

const nghttp: Http2TestClient = {
  name: "nghttp",
  debianPackage: "nghttp2-client",
  isInstalled: () => starts("nghttp"),
  visit: async ({ port, bodyFile, cleanup }) => {
    const statuses: number[] = [];
    const ask = async (paths: readonly string[], ...more: string[]): Promise<string> => {
      const urls = paths.map((path) => `https://127.0.0.1:${port}${path}`);
      const text = await output(cleanup, "nghttp", ["-v", "-y", "-H", `authorization: ${token}`, ...more, ...urls]);
      if (/\[ERROR\]|send GOAWAY frame[^(]*\(error_code=(?!NO_ERROR)/.test(text)) throw new Error(text.slice(-2_000));
      statuses.push(...[...text.matchAll(/:status: (\d+)/g)].map(([, status]) => Number(status)));
      return text;
    };
    // With padding, and with a window of 2^14 - 1 bytes for each stream.
    await ask(first, "-n", "-b", "100");
    const echo = /\b[0-9a-f]{40}\b/.exec(await ask(["/v2/echo"], "-d", bodyFile, "-b", "255"))?.[0] ?? "";
    const large = await ask(["/v2/large"], "-n", "-w", "14");
    const lengths = [...large.matchAll(/recv DATA frame <length=(\d+)/g)].map(([, length]) => Number(length));
    await ask(last, "-n");
    return { statuses, echo, largeBytes: lengths.reduce((sum, length) => sum + length, 0) };
  },
};

const pythonH2: Http2TestClient = {
  name: "python3-h2",
  debianPackage: "python3-h2",
  isInstalled: () => spawnSync("/usr/bin/python3", ["-c", "import h2"]).status === 0,
  visit: async ({ port, bodyFile, cleanup }) => {
    const script = fileURLToPath(new URL("h2-client.py", import.meta.url));
    return JSON.parse(await output(cleanup, "/usr/bin/python3", [script, `${port}`, bodyFile]));
  },
};

/** What is uploaded. */
export const upload = Buffer.alloc(200_000, "u");

/** The page that Chromium opens, from the upstream: its script makes the rest of the visit. */
export const page = `<!doctype html><title>visit</title><body><script>
const body = new Uint8Array(${upload.length}).fill(${upload[0]});
const ask = async (path, upload) => {
  const options = upload === undefined ? {} : { method: "POST", body: upload };
  const response = await fetch(path, { ...options, cache: "no-store" });
  return { status: response.status, body: await response.text() };
};
(async () => {
  const begun = await Promise.all(${JSON.stringify(first.slice(1))}.map((path) => ask(path)));
  const echo = await ask("/v2/echo", body);
  const large = await ask("/v2/large");
  const ended = await Promise.all(${JSON.stringify(last)}.map((path) => ask(path)));
  const statuses = [200, ...[...begun, echo, large, ...ended].map(({ status }) => status)];
  const protocols = performance.getEntries().map((entry) => entry.nextHopProtocol).filter((name) => name);
  const visit = { statuses, echo: echo.body, largeBytes: large.body.length, protocols: [...new Set(protocols)] };
  document.body.textContent = "VISIT" + JSON.stringify(visit) + "VISIT";
})().catch((error) => (document.body.textContent = String(error)));
</script>`;

const chromium: Http2TestClient = {
  name: "Chromium",
  debianPackage: "chromium",
  isInstalled: () => starts("chromium"),
  visit: async ({ port, cleanup }) => {
    const text = await output(cleanup, "chromium", [
      ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--ignore-certificate-errors"],
      ...["--no-first-run", "--disable-background-networking", "--virtual-time-budget=20000", "--dump-dom"],
      `https://127.0.0.1:${port}/v2/page`,
    ]);
    const visit = JSON.parse(/VISIT({.*})VISIT/.exec(text)?.[1] ?? `{"text":${JSON.stringify(text)}}`);
    if (`${visit.protocols}` !== "h2") throw new Error(`not over HTTP/2: ${JSON.stringify(visit)}`);
    return visit;
  },
};

export const http2Clients = [nodeClient, undiciClient, gotClient, curl, nghttp, pythonH2, chromium];
