// The console of the real gateway in Debian's Chromium. Whatever the page does that it must not (a request to another origin, an
// error in the browser's console, a breach of its policy) fails the test at its end.
import { existsSync, renameSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, expect } from "vitest";
import { SignInCode } from "../../src/admin/sign-in-code.ts";
import { systemClock } from "../../src/core/clock.ts";
import { readToken, writeToken } from "../admin/api-stage.ts";
import { digestOf } from "../auth/digest.ts";
import type { Cleanup } from "../support/cleanup.ts";
import type { TestGateway } from "../support/gateway.ts";
import { startFromFile } from "../support/gateway-from-file.ts";
import { type LoopbackServer, startLoopbackServer } from "../support/loopback-server.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";

export { readToken, writeToken };

const program = "/usr/bin/chromium";

// HEADGATE_REQUIRE=all turns what is missing into a failure.
export const noBrowser = !existsSync(program) && process.env["HEADGATE_REQUIRE"] !== "all";
if (noBrowser) process.stderr.write("test/console: skipped, because chromium of Debian is not installed\n");

/** Names that lead to this machine, and are none of its loopback: of the gateway, and of somebody else. */
export const otherHost = "gateway.example";
export const foreignHost = "attacker.test";

/**
 * How long a test waits for what the page shows: less than it may take, so that a failure names what was waited for. The page asks
 * every 5 s, and up to 30 s later if the gateway's answers are slow.
 */
export const patientMs = 45_000;

// Its sandbox needs rights that a container may not have; the pages are our own.
const launch = { executablePath: program, chromiumSandbox: false };

/** With its files in a folder, as that of a person. The caller closes it. */
export function launchKept(folder: string): Promise<BrowserContext> {
  return chromium.launchPersistentContext(folder, launch);
}

/** One for all tests of a file. */
export function useBrowser(): () => Promise<Browser> {
  let browser: Promise<Browser> | null = null;
  afterAll(async () => (await browser)?.close());
  return () => {
    const args = [`--host-resolver-rules=MAP ${otherHost} 127.0.0.1, MAP ${foreignHost} 127.0.0.1`];
    browser ??= chromium.launch({ ...launch, args });
    return browser;
  };
}

export interface ConsoleGateway extends TestGateway {
  /** Signs in one page, as a link that a command prints. */
  readonly code: string;
  readonly folder: string;
  /** Requests by a client, one after the other; resolves with their statuses. */
  ask(client: string, count?: number, options?: AskOptions): Promise<number[]>;
  /** Replaces the policies in the configuration file. */
  write(policies: string): void;
  /** Reloads by the API. Resolves with the status. `terms`: as in its body. */
  reloadOnTrial(terms: Readonly<Record<string, unknown>>): Promise<number>;
}

interface AskOptions {
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const tokens = `${digestOf(readToken)} read # dashboard\n${digestOf(writeToken)} write # ops\n`;

/**
 * Clients are who their X-Forwarded-For says. `admin`: keys of this section; FOLDER stands for a folder of the test. `set`: further
 * keys, as with `--set`.
 */
export async function startConsole(
  cleanup: Cleanup,
  policies: string,
  admin = "tokensFile: admin.txt",
  set: Readonly<Record<string, string>> = {},
): Promise<ConsoleGateway> {
  const upstream = await startUpstream();
  cleanup(() => upstream.close());
  const folder = scratchFolder(cleanup);
  const file = join(folder, "headgate.yaml");
  const write = (text: string): void => {
    const fixed =
      `admin: { port: 0, ${admin.replace("FOLDER", folder)} }\n` +
      "clientAddress: { trustedProxies: [127.0.0.1/32] }\nreload: { watch: false }\n";
    writeFileSync(`${file}.new`, `${fixed}policies:\n${text}`);
    renameSync(`${file}.new`, file);
  };
  writeFileSync(join(folder, "admin.txt"), tokens);
  write(policies);
  const signIn = new SignInCode(writeToken, systemClock.monotonicMs);
  const gateway = await startFromFile(cleanup, upstream.url, file, set, signIn);
  return {
    ...gateway,
    code: signIn.text,
    folder,
    write,
    async reloadOnTrial(terms) {
      const response = await fetch(`${gateway.adminUrl}/api/reload`, {
        method: "POST",
        headers: { authorization: `Bearer ${writeToken}`, "content-type": "application/json" },
        body: JSON.stringify(terms),
      });
      await response.arrayBuffer();
      return response.status;
    },
    async ask(client, count = 1, { path = "/v2/x", headers = {} } = {}) {
      const statuses: number[] = [];
      for (let i = 0; i < count; i += 1) {
        const fields = { authorization: "Bearer x", "x-forwarded-for": client, connection: "close", ...headers };
        const response = await fetch(`${gateway.url}${path}`, { headers: fields });
        await response.arrayBuffer();
        statuses.push(response.status);
      }
      return statuses;
    },
  };
}

/** Opens the page. `path`: what follows on /console/. `script`: runs before those of the page. */
export async function openPage(
  cleanup: Cleanup,
  browser: Browser,
  { adminUrl }: Pick<TestGateway, "adminUrl">,
  path = "",
  script = "",
): Promise<Page> {
  const context = await browser.newContext();
  context.setDefaultTimeout(patientMs);
  const page = await context.newPage();
  const breaches: string[] = [];
  page.on("pageerror", (error) => breaches.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(`${adminUrl}/`) && !request.url().startsWith("data:")) breaches.push(request.url());
  });
  page.on("console", (message) => {
    // The browser reports every answer that is an error, such as the one by which the page learns that it needs a token, and
    // every call that nobody answers or whose answer is cut; and that without TLS it ignores who has opened the page.
    if (
      /^Failed to load resource: (?:.* status of [45]\d\d |net::ERR_(?:CONNECTION_|SOCKET_NOT_CONNECTED|EMPTY_RESPONSE|CONTENT_LENGTH_MISMATCH|INCOMPLETE_CHUNKED_ENCODING))/.test(
        message.text(),
      ) ||
      message.text().startsWith("The Cross-Origin-Opener-Policy header has been ignored")
    )
      return;
    if (["error", "warning"].includes(message.type())) breaches.push(`console: ${message.text()}`);
  });
  await page.addInitScript(script);
  await page.addInitScript(`document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
    throw new Error(\`policy: \${violatedDirective} \${blockedURI}\`);
  })`);
  cleanup(async () => {
    // A call that the page makes by itself may be in a handler of the test, which then fails.
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await context.close();
    expect(breaches).toEqual([]);
  });
  await page.goto(`${adminUrl}/console/${path}`);
  return page;
}

/** Forwards a port of loopback to the gateway's Unix socket, as `ssh -L` does. Its section is `socket: FOLDER/admin.sock`. */
export function forwardSocket(cleanup: Cleanup, { folder }: Pick<ConsoleGateway, "folder">): Promise<LoopbackServer> {
  return startLoopbackServer(cleanup, (client) => {
    const socket = connect(`${folder}/admin.sock`);
    client.on("close", () => socket.destroy()).pipe(socket);
    socket.on("error", () => client.end()).pipe(client);
  });
}

/** Opens the page, and types the token. `script`: as of openPage. */
export async function openSignedIn(
  cleanup: Cleanup,
  browser: Browser,
  gateway: Pick<TestGateway, "adminUrl">,
  token = writeToken,
  script = "",
): Promise<Page> {
  const page = await openPage(cleanup, browser, gateway, "", script);
  await page.getByLabel("Token of the admin API").fill(token);
  await page.keyboard.press("Enter");
  return page;
}

/** Shows a view, at another address than before. Resolves when it has loaded what it shows: only then it has a heading. */
export async function showView(page: Page, hash: string): Promise<void> {
  const heading = 'document.querySelector("#main h1")';
  await page.evaluate(`globalThis.left = ${heading}; location.hash = ${JSON.stringify(hash)}`);
  await expect.poll(() => page.evaluate(`![null, left].includes(${heading})`)).toBe(true);
  await expect.poll(() => page.getByText("Loading …").count()).toBe(0);
}
