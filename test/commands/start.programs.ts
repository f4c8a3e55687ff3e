// The command as a user starts it: a process of its own, its lines, its exit code.
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { saferNode } from "../../src/commands/safe-node.ts";
import { listen } from "../support/loopback-server.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";
import { headgate, main, portOf, run } from "./command-process.ts";

const anyPorts = ["--host", "127.0.0.1", "--port", "0", "--admin-port", "0"];

test("start says where each listener is, serves, and ends with 0 on SIGTERM", async () => {
  const upstream = await startUpstream();
  onTestFinished(() => upstream.close());
  const started = headgate(["start", "--upstream", upstream.url, ...anyPorts]);
  const trafficPort = await portOf(started, "traffic");
  const adminPort = await portOf(started, "admin");
  const answer = await fetch(`http://127.0.0.1:${trafficPort}/v2/x`, { headers: { authorization: "Bearer x" } });
  expect(answer.status).toBe(200);
  expect((await fetch(`http://127.0.0.1:${adminPort}/readyz`)).status).toBe(200);
  started.process.kill("SIGTERM");
  expect(await started.exited).toBe(0);
  expect(started.output.err).toBe("");
  for (const line of started.output.out.trim().split("\n")) expect(() => JSON.parse(line)).not.toThrow();
  expect(started.output.out).toContain('"msg":"stopped"');
  // A Node with known vulnerabilities is warned of.
  expect(started.output.out.includes('"lowestSafe":')).toBe(saferNode(process.versions.node) !== null);
});

test("SIGTERM to npm start reaches the gateway, which drains", async () => {
  const started = run("npm", ["start", "--silent", "--", ...anyPorts]);
  const port = await portOf(started, "traffic");
  started.process.kill("SIGTERM");
  await started.until(/"msg":"stopped"/);
  await started.exited;
  await expect(fetch(`http://127.0.0.1:${port}/v2/x`)).rejects.toThrow();
});

test("SIGHUP reloads the file: each error with its line changes nothing, and requests in flight go on", async () => {
  const folder = scratchFolder(onTestFinished);
  const file = join(folder, "headgate.yaml");
  const held = Promise.withResolvers<() => void>();
  const upstream = await startUpstream((req, res) => {
    if (req.url === "/v2/slow") held.resolve(() => void res.end("late"));
    else res.end("ok");
  });
  onTestFinished(() => upstream.close());
  writeFileSync(file, "reload: { watch: false }\n");
  const started = headgate(["start", "--config", file, "--upstream", upstream.url, ...anyPorts]);
  const port = await portOf(started, "traffic");
  const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: "Bearer x" } });
  const answer = ask("/v2/slow").then((response) => response.text());
  const respond = await held.promise;

  writeFileSync(file, "reload: { watch: false }\nroutes: [v3]\nmaxBodyBytes: 0\n");
  started.process.kill("SIGHUP");
  await started.until(/"error":"[^"]*headgate\.yaml:2:10: routes\.0: found [^}]*"msg":"configuration error"/);
  await started.until(/"error":"[^"]*headgate\.yaml:3:15: maxBodyBytes: found 0, [^}]*"msg":"configuration error"/);
  await started.until(/"by":"signal","errors":2,.*"msg":"reload failed, the configuration is not changed"/);
  expect((await ask("/v2/x")).status).toBe(200);

  writeFileSync(file, "reload: { watch: false }\nroutes: [/v3/]\n");
  started.process.kill("SIGHUP");
  await started.until(
    /"by":"signal","changed":\["routes"\],"values":\["routes: \[\/v1\/, \/v2\/\] .* \[\/v3\/\]"\],"msg":"reloaded"/,
  );
  expect([(await ask("/v2/x")).status, (await ask("/v3/x")).status]).toEqual([404, 200]);
  respond();
  expect(await answer).toBe("late");
  started.process.kill("SIGTERM");
  // Nor does a SIGHUP during the drain, or at its very end, end the process.
  const insisting = setInterval(() => started.process.kill("SIGHUP"), 1);
  onTestFinished(() => clearInterval(insisting));
  expect(await started.exited).toBe(0);
});

/** Run before main: sends signals when the first module that main loads dynamically is loaded. */
const signalEarly = `data:text/javascript,
  import { registerHooks } from "node:module";
  registerHooks({
    load(url, context, next) {
      if (url.endsWith("/commands/arguments.ts")) {
        process.kill(process.pid, "SIGUSR1");
        process.kill(process.pid, "SIGHUP");
      }
      return next(url, context);
    },
  });`;

test("early in the start, SIGUSR1 opens no inspector, as later, and SIGHUP reloads once the gateway runs", async () => {
  const started = run(process.execPath, ["--import", signalEarly, main, "start", ...anyPorts]);
  await portOf(started, "admin");
  await started.until(/"by":"signal","msg":"reloaded, nothing has changed"/);
  started.process.kill("SIGUSR1");
  started.process.kill("SIGTERM");
  expect(await started.exited).toBe(0);
  expect(started.output.err).toBe("");
});

test("a signal that arrives twice at once drains; a second one later ends the drain", async () => {
  const upstream = await startUpstream(() => {}); // never answers
  onTestFinished(() => upstream.close());
  const started = headgate(["start", "--upstream", upstream.url, ...anyPorts]);
  const port = await portOf(started, "traffic");
  const hanging = fetch(`http://127.0.0.1:${port}/v2/x`, { headers: { authorization: "Bearer x" } }).catch(() => "cut");
  await expect.poll(() => upstream.hits()).toBe(1);
  started.process.kill("SIGTERM");
  started.process.kill("SIGTERM");
  await started.until(/"msg":"draining"/);
  const insisting = setInterval(() => started.process.kill("SIGTERM"), 350);
  expect(await started.exited).toBe(143);
  clearInterval(insisting);
  expect(await hanging).toBe("cut");
  expect(started.output.out).toMatch(/"level":"warn",.*"msg":"second signal, requests in progress are broken off"/);
});

test("a traffic port in use is one clear line and a non-zero exit, and nothing stays open", async () => {
  const taken = createServer();
  const port = await listen(taken);
  onTestFinished(() => void taken.close());
  const started = headgate(["start", "--host", "127.0.0.1", "--port", `${port}`, "--admin-port", "0"]);
  expect(await started.exited).toBe(69);
  expect(started.output.err).toBe(`headgate: cannot listen on 127.0.0.1:${port} (traffic): the port is in use\n`);
  expect(started.output.out).not.toContain('"listener":"traffic"');
});

test("an address this machine does not have is one clear line", async () => {
  const started = headgate(["start", "--host", "192.0.2.1", "--port", "0", "--admin-port", "0"]);
  expect(await started.exited).toBe(69);
  expect(started.output.err).toBe(
    "headgate: cannot listen on 192.0.2.1:0 (traffic): this machine has no such address\n",
  );
});

test("an upstream that is no URL stops the start with 78 before a port is opened", async () => {
  const started = headgate(["start", "--upstream", "nonsense", ...anyPorts]);
  expect(await started.exited).toBe(78);
  expect(started.output.err).toMatch(
    /^command line --upstream: upstream\.url: found "nonsense", expected an absolute http/,
  );
  expect(started.output.out).toBe("");
});

test("a tokens file that is not there stops the start with 78", async () => {
  const started = headgate([
    "start",
    ...anyPorts,
    "--set",
    "auth.mode=tokens",
    "--set",
    "auth.tokensFile=no-such-file",
  ]);
  expect(await started.exited).toBe(78);
  expect(started.output.err).toMatch(/no-such-file: cannot be read/);
});
