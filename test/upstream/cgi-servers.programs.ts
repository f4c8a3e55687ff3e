// Servers that pass a script's lines on as it writes them: BusyBox httpd, mini_httpd, Python's http.server and lighttpd, with
// scripts of CGI that end their lines in LF alone, and one that writes its whole head.
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startBackend } from "../conformance/fuzz/backends/backend.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startTestGateway } from "../support/gateway.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";

const { HEADGATE_REQUIRE } = process.env;
const cleanup = useCleanup();

const scripts = {
  "hello.sh": '#!/bin/sh\necho "Content-Type: text/plain"\necho "X-Script: yes"\necho\necho hello\n',
  "length.sh": '#!/bin/sh\necho "Content-Type: text/plain"\necho "Content-Length: 6"\necho\necho hello\n',
  "crlf.sh": '#!/bin/sh\nprintf "Content-Type: text/plain\\r\\n\\r\\nhello\\n"\n',
  /** Its own status line, which these servers pass on. */
  "nph-whole.sh": '#!/bin/sh\nprintf "HTTP/1.0 200 OK\\nContent-Type: text/plain\\n\\nhello\\n"\n',
  "reflect.sh":
    '#!/bin/sh\necho "Content-Type: text/plain"\n' +
    `printf "X-Query: $(printf %s "$QUERY_STRING" | sed 's/%0a/\\\\n/g; s/%0d/\\\\r/g; s/%20/ /g')\\n\\n"\necho hello\n`,
} as const;

/** What is behind the first empty line is body. */
const lineEnds = "reflect.sh?a%0aX-More:b%0d%0a%0d%0aHTTP/1.1%20200%20OK";
const bodies: Readonly<Record<string, string>> = { [lineEnds]: "HTTP/1.1 200 OK\n\nhello\n" };

interface Server {
  readonly name: string;
  readonly debianPackage: string;
  readonly command: string;
  readonly args: (folder: string, port: number) => readonly string[];
  /** It answers a POST to a script with nothing, directly as well. */
  readonly isWithoutPost?: true;
  /** It refuses targets with line ends, or passes on no status line of a script. */
  readonly without?: readonly string[];
  readonly config?: (folder: string, port: number) => string;
}

const servers: readonly Server[] = [
  {
    name: "BusyBox httpd",
    debianPackage: "busybox",
    command: "busybox",
    args: (folder, port) => ["httpd", "-f", "-p", `127.0.0.1:${port}`, "-h", folder],
  },
  {
    name: "mini_httpd",
    debianPackage: "mini-httpd",
    command: "mini_httpd",
    isWithoutPost: true,
    args: (folder, port) => [..."-D -h 127.0.0.1 -c cgi-bin/*".split(" "), "-p", `${port}`, "-d", folder],
  },
  {
    name: "Python's http.server",
    debianPackage: "python3",
    command: "python3",
    without: ["nph-whole.sh"],
    args: (folder, port) => [..."-m http.server --cgi --bind 127.0.0.1 --directory".split(" "), folder, `${port}`],
  },
  {
    name: "lighttpd",
    debianPackage: "lighttpd",
    command: "lighttpd",
    without: [lineEnds],
    args: (folder) => ["-D", "-f", `${folder}/config`],
    config: (folder, port) => `
server.bind = "127.0.0.1"
server.port = ${port}
server.document-root = "${folder}"
server.modules = ("mod_cgi")
cgi.assign = (".sh" => "")
`,
  },
];

const isInstalled = (command: string): boolean => spawnSync("sh", ["-c", `command -v ${command}`]).status === 0;

describe.for(servers)("$name", ({ debianPackage, command, args, config, isWithoutPost = false, without = [] }) => {
  const skip = !isInstalled(command) && HEADGATE_REQUIRE !== "all";
  test.skipIf(skip)(`each script is served, by GET and POST (needs ${debianPackage})`, async () => {
    let listensAt = 0;
    const started = await startBackend({
      command,
      args: (folder) => args(folder, listensAt),
      files: (folder, port) => {
        listensAt = port;
        mkdirSync(join(folder, "cgi-bin"));
        for (const [name, text] of Object.entries(scripts)) {
          writeFileSync(join(folder, "cgi-bin", name), text);
          chmodSync(join(folder, "cgi-bin", name), 0o755);
        }
        chmodSync(folder, 0o755);
        return config === undefined ? {} : { config: config(folder, port) };
      },
      logsToOutput: true,
      shownAs: (sent) => sent,
      readLine: () => ({ id: "", port: 0, line: null, fields: [], body: null }),
    });
    cleanup(() => started.remove());
    const overrides = { routes: ["/cgi-bin/"], drain: { timeoutMs: 0 } };
    const gateway = cleanup(await startTestGateway({ upstreamUrl: started.url, overrides }));
    const client = cleanup(new RawConnection(gateway.traffic.port));
    const targets = [...Object.keys(scripts), lineEnds].filter((target) => !without.includes(target));
    const requests = targets.flatMap((target) =>
      (isWithoutPost ? ["GET"] : ["GET", "POST"]).map((method) => [target, method] as const),
    );
    for (const [target, method] of requests) {
      const body = method === "POST" ? "a=b" : "";
      const fields = body === "" ? "" : `Content-Length: ${body.length}\r\n`;
      const answer = await client.ask(request(`/cgi-bin/${target}`, { method, fields, body }));
      expect([target, method, answer.status, answer.body]).toEqual([target, method, 200, bodies[target] ?? "hello\n"]);
      expect(valuesOf(answer.rawHeaders, "Content-Type")[0]).toMatch(/^text\/plain/);
      expect(client.rest).toBe("");
    }
  });
});
