// `upstream.tls.ca: system`: the bundle of a container's or machine's authorities, mounted in a namespace of its own, with curl as
// the judge. No process here has a variable NODE_* or SSL_*, which some machines set, but where a test is about them.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { main, portOf, type Run, run } from "../commands/command-process.ts";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startTlsUpstream } from "../support/tls-upstream.ts";

const cleanup = useCleanup();
const store = "/etc/ssl/certs/ca-certificates.crt";

async function stage() {
  const authority = new Authority(cleanup);
  const { cert, key } = authority.issue();
  const upstream = await startTlsUpstream(cleanup, { cert, key });
  const bundle = join(scratchFolder(cleanup), "bundle.crt");
  writeFileSync(bundle, authority.cert);
  return { authority, upstream, bundle };
}

const mounting = (bundle: string, command: readonly string[]): string[] => {
  return ["--mount", "bash", "-c", `mount --bind '${bundle}' ${store} && exec "$0" "$@"`, ...command];
};

function start(bundle: string, url: string, ca: string | null, env: Readonly<Record<string, string>> = {}): Run {
  const set = [
    "--set",
    "auth.mode=off",
    "--set",
    "upstream.keepAlive=0",
    // A busy machine keeps one of the two processes from its processor in the middle of a handshake.
    "--set",
    "upstream.connectTimeout=30s",
    // It is asked until a reload has happened, however long that takes.
    "--set",
    "policies.0.limit=1000000",
    ...(ca === null ? [] : ["--set", `upstream.tls.ca=${ca}`]),
  ];
  const ports = ["--port", "0", "--admin-port", "0"];
  return run("unshare", mounting(bundle, [process.execPath, main, "start", "--upstream", url, ...ports, ...set]), env);
}

async function status(gateway: Run): Promise<number> {
  return (await fetch(`http://127.0.0.1:${await portOf(gateway, "traffic")}/v2/a`)).status;
}

test("the authorities of the system are trusted with ca: system, as curl does, and not without", async () => {
  const { authority, upstream, bundle } = await stage();
  // None of them adds an authority, or turns the verification off.
  const file = authority.certFile;
  const env = { SSL_CERT_FILE: file, SSL_CERT_DIR: dirname(file), NODE_TLS_REJECT_UNAUTHORIZED: "0" };
  const gateway = start(bundle, upstream.url, "system", { ...env, NODE_EXTRA_CA_CERTS: file });
  const byDefault = start(bundle, upstream.url, null, env);
  expect(await status(gateway)).toBe(200);
  const judge = run("unshare", mounting(bundle, ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", upstream.url]));
  await judge.exited;
  expect(judge.output.out).toBe("200");
  expect(await status(byDefault)).toBe(502);
  await byDefault.until(/UNABLE_TO_VERIFY_LEAF_SIGNATURE/);

  // Another authority takes its place, and a reload reads it.
  writeFileSync(bundle, new Authority(cleanup).cert);
  gateway.process.kill("SIGHUP");
  await eventually("it is not trusted any more", async () => (await status(gateway)) === 502);
  writeFileSync(bundle, authority.cert);
  gateway.process.kill("SIGHUP");
  await eventually("it is trusted again", async () => (await status(gateway)) === 200);
});

test("an empty store is an error before a port is opened, and so is one that is none", async () => {
  const { upstream, bundle } = await stage();
  writeFileSync(bundle, "");
  const empty = start(bundle, upstream.url, "system");
  expect(await empty.exited).toBe(78);
  expect(empty.output.err).toContain(`upstream.tls.ca: ${store}: found no certificate, expected one or more in PEM`);
  expect(empty.output.out).toBe("");
  // A system without any of the files, such as node:26-slim.
  const without = `mount -t tmpfs none /etc/ssl && exec "$0" "$@"`;
  const { stderr, status: code } = spawnSync(
    "unshare",
    [
      "--mount",
      "bash",
      "-c",
      without,
      process.execPath,
      main,
      "check",
      "--upstream",
      upstream.url,
      "--set",
      "upstream.tls.ca=system",
    ],
    { encoding: "utf8", env: { PATH: process.env["PATH"] } },
  );
  expect(code).toBe(78);
  expect(stderr).toMatch(
    /upstream\.tls\.ca: found "system", expected the path of a file, since there is none of \/etc\/ssl\/certs\/ca-certificates\.crt, /,
  );
});
