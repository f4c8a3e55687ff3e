// `npm run pictures`: runs the demo for a minute and draws the views of its console, light and dark, to docs/images/ for README.md
// and docs/console.md. Needs Debian's Chromium. No test checks the pictures.
import { mkdirSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type CDPSession, chromium, type Page } from "playwright-core";
import { within } from "../support/eventually.ts";
import { startProcessGroup } from "../support/process-group.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const images = new URL("../../docs/images/", import.meta.url);

/** Of a picture, in pixels of the page. */
const width = 1080;
/** Pixels of a picture for each of the page, for sharp displays. */
const scale = 2;

interface Picture {
  /** Without its theme. */
  readonly name: string;
  /** Behind /console/. */
  readonly path: string;
  /** Since the start of the demo. */
  readonly afterMs: number;
  /** A text or an element that is there when the view has its answers. */
  readonly shows: string;
  /** In pixels of the page. */
  readonly maxHeight: number;
}

/** The second burst, at half a minute, and the reader, at 40 s, are refused until the first minute is over. */
const pictures: readonly Picture[] = [
  {
    name: "console-client",
    path: "#/clients/client%3A127.0.1.15",
    afterMs: 52_000,
    shows: "#main svg",
    maxHeight: 760,
  },
  { name: "console-clients", path: "#/clients", afterMs: 55_000, shows: "text=127.0.1.13", maxHeight: 760 },
  { name: "console-now", path: "#/now", afterMs: 75_000, shows: "#main svg", maxHeight: 1200 },
  { name: "console-policies", path: "#/policies", afterMs: 76_000, shows: "text=per-ip", maxHeight: 760 },
  {
    name: "console-configuration",
    path: "#/configuration",
    afterMs: 77_000,
    shows: ".yaml",
    maxHeight: 560,
  },
];

/** Of the whole page, or, if that is too much, down to the end of a row. */
const fittingHeight = (maxHeight: number): string => `(() => {
  const whole = document.body.scrollHeight;
  const rows = [...document.querySelectorAll("#main tr")].map((row) => Math.ceil(row.getBoundingClientRect().bottom));
  return whole <= ${maxHeight} ? whole : Math.max(...rows.filter((bottom) => bottom <= ${maxHeight}));
})()`;

const demo = startProcessGroup(process.execPath, ["src/main.ts", "demo", "--port", "0", "--admin-port", "0"], {
  cwd: root,
  stderr: "inherit",
});
// Its sandbox needs rights that a container may not have; the page is our own.
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: false });
try {
  const link = await within("the demo has started", linkOf(demo.child.stdout), 30_000);
  const startedMs = performance.now();
  const context = await browser.newContext({ viewport: { width, height: 1200 }, deviceScaleFactor: scale });
  const page = await context.newPage();
  await page.goto(link);
  // For WebP, which playwright does not write itself, and which has half of the bytes of a PNG.
  const session = await context.newCDPSession(page);
  mkdirSync(images, { recursive: true });
  for (const picture of pictures) {
    await page.evaluate(`location.hash = ${JSON.stringify(picture.path)}`);
    await sleep(Math.max(0, startedMs + picture.afterMs - performance.now()));
    await draw(page, session, picture);
  }
} finally {
  await browser.close();
  demo.child.kill("SIGINT");
  await demo.exited;
}

async function linkOf(output: Readable): Promise<string> {
  for await (const line of createInterface(output)) {
    const [, link] = /console +(http:\S+#code=[\w-]+)$/.exec(line) ?? [];
    if (link !== undefined) return link;
  }
  throw new Error("the demo has ended");
}

async function draw(page: Page, session: CDPSession, { name, shows, maxHeight }: Picture): Promise<void> {
  await page.locator(shows).first().waitFor();
  const height = Number(await page.evaluate(fittingHeight(maxHeight)));
  const clip = { x: 0, y: 0, width, height, scale };
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 60, clip });
    const bytes = Buffer.from(data, "base64");
    const file = `${name}-${colorScheme}.webp`;
    writeFileSync(new URL(file, images), bytes);
    process.stdout.write(
      `docs/images/${file}  ${width * scale} x ${height * scale}, ${Math.ceil(bytes.length / 1024)} KiB\n`,
    );
  }
}
