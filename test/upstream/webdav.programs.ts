// WebDAV and Subversion by TLS in front of a plain Apache, as docs/applications.md says: what its own setting changes, the login of
// Apache's own, and a checkout, commits, a move and a copy of Subversion.
import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, writeFileSync } from "node:fs";
import { request as httpsRequest } from "node:https";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { read } from "../docs/markdown.ts";
import { useCleanup } from "../support/cleanup.ts";
import { type Overrides, startTestGateway, type TestGateway } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch.ts";
import { useTls } from "../support/tls-listener.ts";
import { hasApache, startApache } from "./apache.ts";

const cleanup = useCleanup();
const tls = useTls();
const run = promisify(execFile);
const isRequired = process.env["HEADGATE_REQUIRE"] === "all";
const hasSvn = existsSync("/usr/bin/svn") && existsSync("/usr/lib/apache2/modules/mod_dav_svn.so");

const login = `Basic ${Buffer.from("ann:secret").toString("base64")}`;
const users = `ann:{SHA}${createHash("sha1").update("secret").digest("base64")}\n`;

/** The configuration of the page. */
function recipe(): Overrides {
  const folder = scratchFolder(cleanup);
  const [, yaml = ""] = /^## WebDAV and Subversion.*?^```yaml\n(.*?)^```/ms.exec(read("docs/applications.md")) ?? [];
  writeFileSync(join(folder, "c.yaml"), yaml);
  const loaded = loadSettings({ file: "c.yaml", env: {}, cwd: folder, overrides: [] });
  if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
  const { routes, auth, policies, maxBodyBytes } = loaded.settings;
  return { routes, auth, policies, maxBodyBytes };
}

async function startGateway(url: string, hostHeader = "client"): Promise<{ gateway: TestGateway; ca: string }> {
  const { ca, overrides } = tls();
  const more = { drain: { timeoutMs: 0 }, upstream: { hostHeader } };
  const gateway = await startTestGateway({ upstreamUrl: url, overrides: { ...overrides, ...recipe(), ...more } });
  cleanup(() => gateway.close());
  return { gateway, ca };
}

/** The status, or where a redirect leads. */
function ask(port: number, ca: string, method: string, path: string, headers: Record<string, string>, body = "") {
  return new Promise<number | string>((resolve, reject) => {
    const options = { host: "localhost", port, ca, method, path, headers: { authorization: login, ...headers } };
    httpsRequest(options, (response) => {
      const { statusCode = 0, headers } = response;
      response.resume().on("end", () => resolve(statusCode === 301 ? (headers.location ?? "") : statusCode));
    })
      .on("error", reject)
      .end(body);
  });
}

/** The two settings of Apache that the page names, and none of them. */
const settings = {
  none: "",
  edit: "RequestHeader edit Destination ^https: http: early\n",
  serverName: "ServerName https://public.example\nUseCanonicalName On\n",
} as const;

const basic = `AuthType Basic
AuthName files
AuthUserFile USERS
Require valid-user
`;
const modules = ["dav", "dav_fs", "headers", "auth_basic", "authn_core", "authn_file", "authz_user"];

const startDav = (setting: string) =>
  startApache(cleanup, {
    modules: [...modules, "dir"],
    files: { users, "www/dav/a": "a", "lock/empty": "" },
    config: (folder) => `${setting}DocumentRoot ${folder}/www
DavLockDB ${folder}/lock/db
<Directory ${folder}/www/dav>
Dav On
${basic.replace("USERS", `${folder}/users`)}</Directory>
`,
  });

describe.skipIf(!hasApache && !isRequired)("mod_dav (needs apache2)", () => {
  test.each([
    ["none", "client", 502],
    ["edit", "client", 201],
    ["serverName", "client", 201],
    ["edit", "url", 201],
  ] as const)("COPY by TLS with the setting %s and hostHeader %s: %i", async (setting, hostHeader, copied) => {
    const { url } = await startDav(settings[setting]);
    const { gateway, ca } = await startGateway(url, hostHeader);
    const { port } = gateway.traffic;
    const to = (path: string): Record<string, string> => ({ destination: `https://localhost:${port}${path}` });
    expect(await ask(port, ca, "GET", "/dav/a", { authorization: "Basic eDp5" })).toBe(401);
    // Its own name is what it writes, and nothing is rewritten.
    const written = hostHeader === "url" ? url : `http://localhost:${port}`;
    const origin = setting === "serverName" ? "https://public.example" : written;
    expect(await ask(port, ca, "GET", "/dav", {})).toBe(`${origin}/dav/`);
    expect(await ask(port, ca, "PUT", "/dav/b", {}, "b")).toBe(201);
    expect(await ask(port, ca, "PROPFIND", "/dav/", { depth: "1" })).toBe(207);
    expect(await ask(port, ca, "MKCOL", "/dav/folder/", {})).toBe(201);
    expect(await ask(port, ca, "COPY", "/dav/b", to("/dav/folder/c"))).toBe(copied);
    if (copied === 201) expect(await ask(port, ca, "MOVE", "/dav/folder/c", to("/dav/d"))).toBe(201);
    expect(await ask(port, ca, "DELETE", "/dav/b", {})).toBe(204);
  });
});

describe.skipIf(!(hasApache && hasSvn) && !isRequired)("Subversion (needs subversion, libapache2-mod-svn)", () => {
  test("a checkout, a commit, a move and a copy of a folder", async () => {
    const { url } = await startApache(cleanup, {
      modules: [...modules.filter((name) => name !== "dav_fs"), "dav_svn"],
      files: { users },
      prepare(folder) {
        const repository = join(folder, "repository");
        execFileSync("svnadmin", ["create", repository]);
        execFileSync("chmod", ["-R", "a+rwX", repository]);
      },
      config: (folder) => `${settings.edit}<Location /svn>
DAV svn
SVNPath ${folder}/repository
${basic.replace("USERS", `${folder}/users`)}</Location>
`,
    });
    const { gateway, ca } = await startGateway(url);
    const folder = scratchFolder(cleanup);
    writeFileSync(join(folder, "ca.pem"), ca);
    const at = `https://localhost:${gateway.traffic.port}/svn`;
    const copy = join(folder, "copy");
    const svn = async (...args: string[]): Promise<string> => {
      const authority = `servers:global:ssl-authority-files=${join(folder, "ca.pem")}`;
      const login = ["--username", "ann", "--password", "secret", "--no-auth-cache", "--non-interactive"];
      const options = ["--config-dir", join(folder, "config"), "--config-option", authority, ...login];
      return (await run("svn", [...args, ...options], { cwd: folder })).stdout;
    };
    await svn("checkout", "-q", at, copy);
    writeFileSync(join(copy, "one"), "x".repeat(100_000));
    await svn("add", "-q", join(copy, "one"));
    await svn("commit", "-q", "-m", "one", copy);
    await svn("update", "-q", copy);
    await svn("move", "-q", join(copy, "one"), join(copy, "two"));
    await svn("commit", "-q", "-m", "moved", copy);
    await svn("copy", "-q", "-m", "copied", `${at}/two`, `${at}/three`);
    expect((await svn("list", at)).split("\n")).toEqual(["three", "two", ""]);
    expect(await svn("cat", `${at}/three`)).toBe("x".repeat(100_000));
  });
});
