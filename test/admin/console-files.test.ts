// The files of the console, as they are served: open, where the API exists, for the hosts that it answers.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { AdminConnections } from "../../src/admin/connections.ts";
import { ConsoleFiles, readConsoleFiles } from "../../src/admin/console-files.ts";
import { Authority, certificateOf } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";
import { type Answer, type Call, listedTokens, stageApi } from "./api-stage.ts";
import { fakePlane } from "./fake-plane.ts";

const cleanup = useCleanup();
const maxBytes = 160 * 1024;
const open = { token: null };

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "require-trusted-types-for 'script'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

function expectProtected({ headers }: Answer): void {
  expect(headers).toMatchObject({
    "content-security-policy": policy,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
  });
}

test("each file is served without a token, with its type, its policy and its entity tag", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  const types = new Map<string, string>();
  for (const name of (await readConsoleFiles()).keys()) {
    const answer = await stage.call("GET", `/console/${name}`, open);
    expect([name, answer.status, answer.headers["cache-control"]]).toEqual([name, 200, "no-cache"]);
    expectProtected(answer);
    types.set(name, String(answer.headers["content-type"]));
    const tag = { "if-none-match": String(answer.headers["etag"]) };
    const again = await stage.call("GET", `/console/${name}`, { ...open, headers: tag });
    expect([again.status, again.text, again.headers["etag"]]).toEqual([304, "", tag["if-none-match"]]);
  }
  expect(types.get("")).toBe("text/html; charset=utf-8");
  expect(types.get("style.css")).toBe("text/css; charset=utf-8");
  expect(types.get("main.js")).toBe("text/javascript; charset=utf-8");
  expect(types.get("preact.js")).toBe("text/javascript; charset=utf-8");
  expect(stage.failures).toEqual([]);
});

test("the page is smaller than 160 KiB, and import only each other", async () => {
  const files = await readConsoleFiles();
  // The runbooks are loaded when somebody asks for one.
  const page = [...files].filter(([name]) => name !== "runbooks.md");
  const bytes = page.reduce((sum, [, file]) => sum + file.bytes.length, 0);
  expect(bytes).toBeGreaterThan(20 * 1024);
  expect(bytes).toBeLessThan(maxBytes);
  const scripts = [...files].filter(([name]) => name.endsWith(".js"));
  for (const [name, file] of scripts) {
    const text = file.bytes.toString();
    const imported = [...text.matchAll(/(?:from|import)\s*"([^"]*)"/g)].map(([, specifier = ""]) => specifier);
    expect([name, imported.filter((each) => !files.has(each.replace(/^\.\//, "")))]).toEqual([name, []]);
  }
});

test("what is not sent of a file are lines of comments, empty lines, indentation, and of styles what no browser needs", async () => {
  for (const [name, { bytes }] of await readConsoleFiles()) {
    if (!/\.(js|css)$/.test(name) || ["preact.js", "hooks.js", "htm.js"].includes(name)) continue;
    const source = readFileSync(new URL(`../../src/admin/console/${name}`, import.meta.url), "utf8");
    const [end, comment] = name.endsWith(".css") ? ["", /^\/\*/] : ["\n", /^(?:\/\/|\/?\*)/];
    const lines = source.split("\n").map((line) => line.trimStart());
    const code = lines.filter((line) => line !== "" && !comment.test(line));
    const blanks = name.endsWith(".css") ? /(?<=[{};,:]) | (?=\{)/g : /$^/g;
    const sent = bytes.toString().trimEnd().replaceAll("\n", end);
    expect([name, sent]).toEqual([name, code.join(end).replaceAll(blanks, "")]);
  }
});

test("the page loads every script at once, so that a slow network costs one round trip and not one for each level", async () => {
  const files = await readConsoleFiles();
  const page = files.get("")?.bytes.toString() ?? "";
  const named = [...page.matchAll(/(?:modulepreload" href|src)="([^"]+\.js)"/g)].map(([, name]) => name);
  expect(named.sort()).toEqual([...files.keys()].filter((name) => name.endsWith(".js")).sort());
});

test("nothing in the page makes markup or code of text", async () => {
  const banned =
    /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|localStorage|sessionStorage|cookie/;
  for (const [name, { bytes }] of await readConsoleFiles()) {
    if (["preact.js", "hooks.js", "htm.js", "runbooks.md"].includes(name)) continue;
    expect([name, banned.exec(bytes.toString())?.[0]]).toEqual([name, undefined]);
  }
});

test("a HEAD has the fields of GET and no body; other methods are refused, and a body is not read", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  const [get, head] = [await stage.call("GET", "/console/", open), await stage.call("HEAD", "/console/", open)];
  expect([head.status, head.text, head.headers["content-length"]]).toEqual([200, "", get.headers["content-length"]]);
  const post = await stage.call("POST", "/console/", { ...open, body: {} });
  expect([post.status, post.headers["allow"], post.headers["connection"]]).toEqual([405, "GET, HEAD", "close"]);
  expectProtected(post);
  const withBody = await stage.call("GET", "/console/", { ...open, body: {} });
  expect([withBody.status, withBody.headers["connection"]]).toEqual([200, "close"]);
});

test("without the slash the page is found all the same", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  for (const path of ["/console", "/console?x"]) {
    const answer = await stage.call("GET", path, open);
    expect([answer.status, answer.headers["location"]]).toEqual([308, "/console/"]);
  }
});

test.each([
  "/console/../package.json",
  "/console/%2e%2e/api.ts",
  "/console/..%2f..%2fpackage.json",
  "/console/%2fetc/passwd",
  "/console//etc/passwd",
  "/console/..\\api.ts",
  "/console/./main.js",
  "/console/main.js/",
  "/console/main.js%00",
  "/console/__proto__",
  "/console/index.html",
  "/console/nothing.js",
])("%s leads to no file", async (path) => {
  const stage = await stageApi(cleanup, fakePlane());
  const answer = await stage.call("GET", path, open);
  expect([answer.status, answer.headers["cache-control"]]).toEqual([404, "no-store"]);
  expectProtected(answer);
});

test("the page exists where the API does: over TCP with a tokens file, and on the Unix socket", async () => {
  const socketPath = `${scratchFolder(cleanup)}/admin.sock`;
  const stage = await stageApi(cleanup, fakePlane(), { socket: socketPath, access: { tokens: null } });
  expect((await stage.call("GET", "/console/", open)).status).toBe(404);
  const host = { host: "localhost" };
  expect((await stage.call("GET", "/console/", { ...open, socketPath, headers: host })).status).toBe(200);
  expect(
    (await stage.call("GET", "/console/", { ...open, socketPath, headers: { host: "evil.example" } })).status,
  ).toBe(421);
  stage.access = { ...stage.access, tokens: { value: listedTokens } };
  expect((await stage.call("GET", "/console/", open)).status).toBe(200);
  const none = await stageApi(cleanup, fakePlane(), { api: null });
  expect((await none.call("GET", "/console/", open)).status).toBe(404);
});

test("other hosts are not answered, so that a name which leads here by rebinding shows no page; nor are pages of others", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  const statusFor = async (headers: Call["headers"] = {}) =>
    (await stage.call("GET", "/console/main.js", { ...open, headers })).status;
  expect(await statusFor({ host: `evil.example:${stage.port}` })).toBe(421);
  expect(await statusFor({ host: `localhost:${stage.port}` })).toBe(200);
  expect(await statusFor({ origin: "https://evil.example" })).toBe(403);
  expect(await statusFor({ origin: "null" })).toBe(403);
});

test("over TLS the page is the same", async () => {
  const authority = new Authority(cleanup);
  const certificate = certificateOf(authority.issue());
  const stage = await stageApi(cleanup, fakePlane(), { certificate: () => certificate });
  const answer = await stage.call("GET", "/console/", { ...open, ca: authority.cert });
  expect([answer.status, answer.text]).toEqual([
    200,
    readFileSync(new URL("../../src/admin/console/index.html", import.meta.url), "utf8").replaceAll(
      /^ +(?:<!--.*-->\n)?/gm,
      "",
    ),
  ]);
});

test("files that cannot be read are answered 500, and the next request tries again", async () => {
  const failures: Error[] = [];
  let reads = 0;
  const read: typeof readConsoleFiles = async () => {
    reads += 1;
    if (reads === 1) throw new Error("EMFILE at /srv/headgate");
    return readConsoleFiles();
  };
  const connections = new AdminConnections({ peerKey: () => "a", onClosedForRoom: () => {} });
  const access = { tokens: { value: listedTokens }, hosts: ["a"], listenHost: "a" };
  const files = new ConsoleFiles(
    { access: () => access, onFailure: (error) => failures.push(error) },
    connections,
    read,
  );
  const answer = async () => {
    const { IncomingMessage, ServerResponse } = await import("node:http");
    const { Socket } = await import("node:net");
    const request = new IncomingMessage(new Socket());
    Object.assign(request, { method: "GET", url: "/console/", rawHeaders: ["host", "a"] });
    const response = new ServerResponse(request);
    files.handle(request, response);
    await expect.poll(() => response.writableEnded).toBe(true);
    return response.statusCode;
  };
  expect([await answer(), await answer()]).toEqual([500, 200]);
  expect(failures.map(({ message }) => message)).toEqual(["EMFILE at /srv/headgate"]);
});
