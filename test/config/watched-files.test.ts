// A real file in a real folder, changed in the ways in which files are changed. What the watch reports is awaited, with
// a deadline; nothing sleeps for a while and hopes.
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { watch as watchFolder } from "node:fs";
import { mkdir, mkdtemp, rename, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { createAuthenticator } from "../../src/auth/authenticator.ts";
import { type TokenList, tokensFile } from "../../src/auth/tokens-file.ts";
import { FilesError, FileWatcher } from "../../src/config/files.ts";
import type { Authentication, Authenticator, AuthOutcome } from "../../src/core/authentication.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { FileError } from "../../src/core/file-group.ts";
import { digestOf } from "../auth/digest.ts";

const deadlineMs = 10_000;

let folder: string;
let verifiers: Authenticator[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "headgate-tokens-"));
  verifiers = [];
});

afterEach(async () => {
  for (const authenticator of verifiers) authenticator.close();
  await rm(folder, { recursive: true, force: true });
});

const textFor = (...tokens: string[]): string => `${tokens.map(digestOf).join("\n")}\n`;

interface Watch {
  readonly authenticator: Authenticator;
  readonly reloads: number[];
  readonly errors: FileError[];
  /** Resolves once the condition holds; it is looked at whenever the watch reports. */
  until(condition: () => boolean): Promise<void>;
}

/** Often, so that nobody waits long. */
const rereadMs = 20;

async function watching(path: string): Promise<Watch> {
  const reloads: number[] = [];
  const errors: FileError[] = [];
  let onReport = (): void => {};
  const events = {
    onReload: (list: TokenList) => {
      reloads.push(list.size);
      onReport();
    },
    onError: (why: readonly FileError[]) => {
      errors.push(...why);
      onReport();
    },
  };
  const file = await new FileWatcher(rereadMs).open(tokensFile("auth.tokensFile", path), events);
  const authenticator = createAuthenticator(file, systemClock);
  verifiers.push(authenticator);
  const until = (condition: () => boolean): Promise<void> =>
    new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`not within ${deadlineMs} ms`)), deadlineMs);
      onReport = () => {
        if (!condition()) return;
        clearTimeout(late);
        resolve();
      };
      onReport();
    });
  return { authenticator, reloads, errors, until };
}

/** What becomes of a request with the token. */
function ask({ authenticator }: Watch, token: string): AuthOutcome | Promise<Authentication> {
  const authentication = authenticator.authenticate({ kind: "token", token }, "tokens");
  return typeof authentication === "string" || authentication instanceof Promise ? authentication : "accepted";
}

describe("to begin with", () => {
  test("listed tokens are accepted, others invalid, none is missing, and a malformed one is invalid", async () => {
    const path = join(folder, "tokens");
    await writeFile(path, textFor("a", "b"));
    const watch = await watching(path);
    expect([ask(watch, "a"), ask(watch, "b"), ask(watch, "c")]).toEqual(["accepted", "accepted", "invalid"]);
    expect(watch.authenticator.authenticate({ kind: "missing" }, "tokens")).toBe("missing");
    expect(watch.authenticator.authenticate({ kind: "malformed" }, "tokens")).toBe("invalid");
    expect(watch).toMatchObject({ reloads: [], errors: [] });
  });

  test.each([
    ["a file that is not there", undefined, { kind: "unreadable" }],
    ["a file with a bad line", `${digestOf("a")}\nx\n`, { kind: "invalid", line: 2 }],
    ["a file without a digest", "# nobody\n", { kind: "invalid", line: 1 }],
  ])("%s is refused, and says why without repeating it", async (_, text, why) => {
    const path = join(folder, "tokens");
    if (text !== undefined) await writeFile(path, text);
    const problem = await watching(path).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(problem).toBeInstanceOf(FilesError);
    expect(problem).toMatchObject({ errors: [{ key: "auth.tokensFile", file: path, ...why }] });
    if (why.kind === "unreadable") expect(problem).toMatchObject({ errors: [{ cause: { code: "ENOENT" } }] });
  });
});

describe("a change of the file is taken over", () => {
  test("written in place", async () => {
    const path = join(folder, "tokens");
    await writeFile(path, textFor("old"));
    const watch = await watching(path);
    await writeFile(path, textFor("new", "newer"));
    await watch.until(() => watch.reloads.includes(2));
    expect([ask(watch, "old"), ask(watch, "new"), ask(watch, "newer")]).toEqual(["invalid", "accepted", "accepted"]);
  });

  test("renamed over, as editors do, and again", async () => {
    const path = join(folder, "tokens");
    await writeFile(path, textFor("first"));
    const watch = await watching(path);
    for (const token of ["second", "third"]) {
      await writeFile(`${path}.new`, textFor(token));
      await rename(`${path}.new`, path);
      await watch.until(() => ask(watch, token) === "accepted");
    }
    expect([ask(watch, "first"), ask(watch, "second")]).toEqual(["invalid", "invalid"]);
  });

  test("swapped by links, as a mounted secret is, and again", async () => {
    // tokens → ..data/tokens, ..data → ..1: the update points ..data at ..2 by a rename, and removes ..1.
    const publish = async (version: number, token: string): Promise<void> => {
      await mkdir(join(folder, `..${version}`));
      await writeFile(join(folder, `..${version}`, "tokens"), textFor(token));
      await symlink(`..${version}`, join(folder, "..data_tmp"));
      await rename(join(folder, "..data_tmp"), join(folder, "..data"));
      await rm(join(folder, `..${version - 1}`), { recursive: true, force: true });
    };
    await publish(1, "first");
    await symlink(join("..data", "tokens"), join(folder, "tokens"));
    const watch = await watching(join(folder, "tokens"));
    expect(ask(watch, "first")).toBe("accepted");
    for (const [version, token] of [
      [2, "second"],
      [3, "third"],
    ] as const) {
      await publish(version, token);
      await watch.until(() => ask(watch, token) === "accepted");
    }
    expect([ask(watch, "first"), ask(watch, "second")]).toEqual(["invalid", "invalid"]);
    expect(watch.errors).toEqual([]);
  });

  test("swapped by links further up, as a mounted secret with folders in it is, and again", async () => {
    const mounted = join(folder, "mount");
    const publish = async (version: number, token: string): Promise<void> => {
      await mkdir(join(mounted, `..${version}`, "auth"), { recursive: true });
      await writeFile(join(mounted, `..${version}`, "auth", "tokens"), textFor(token));
      await symlink(`..${version}`, join(mounted, "..data_tmp"));
      await rename(join(mounted, "..data_tmp"), join(mounted, "..data"));
      await rm(join(mounted, `..${version - 1}`), { recursive: true, force: true });
    };
    await publish(1, "first");
    await symlink(join("..data", "auth"), join(mounted, "auth"));
    const watch = await watching(join(mounted, "auth", "tokens"));
    for (const [version, token] of [
      [2, "second"],
      [3, "third"],
    ] as const) {
      await publish(version, token);
      await watch.until(() => ask(watch, token) === "accepted");
    }
  });
});

test("a file that is emptied revokes every token", async () => {
  const path = join(folder, "tokens");
  await writeFile(path, textFor("old"));
  const watch = await watching(path);
  await writeFile(path, "# revoked\n");
  await watch.until(() => watch.reloads.includes(0));
  expect(ask(watch, "old")).toBe("invalid");
  expect(watch.authenticator.tokens()).toMatchObject({ listed: 0, isCurrent: true });
});

describe("the list from before stays in use, and the reason is reported", () => {
  test("when the new text is wrong, until it is right again", async () => {
    const path = join(folder, "tokens");
    await writeFile(path, textFor("old"));
    const watch = await watching(path);
    await writeFile(path, `${digestOf("new")}\nnot a digest\n`);
    await watch.until(() => watch.errors.length > 0);
    expect(watch.errors.at(-1)).toMatchObject({ kind: "invalid", line: 2 });
    expect([ask(watch, "old"), ask(watch, "new")]).toEqual(["accepted", "invalid"]);
    await writeFile(path, textFor("new"));
    await watch.until(() => ask(watch, "new") === "accepted");
    expect(ask(watch, "old")).toBe("invalid");
  });

  test("when the file is gone, until there is another", async () => {
    const path = join(folder, "tokens");
    await writeFile(path, textFor("old"));
    const watch = await watching(path);
    await unlink(path);
    await watch.until(() => watch.errors.length > 0);
    expect(watch.errors[0]).toMatchObject({ kind: "unreadable", cause: { code: "ENOENT" } });
    expect(ask(watch, "old")).toBe("accepted");
    expect(watch.authenticator.tokens()).toMatchObject({ listed: 1, isCurrent: false });
    await writeFile(path, textFor("new"));
    await watch.until(() => ask(watch, "new") === "accepted");
  });

  test("when a pipe has taken its place, which is not waited for, until there is a file again", async () => {
    const path = join(folder, "tokens");
    await writeFile(path, textFor("old"));
    const watch = await watching(path);
    execFileSync("mkfifo", [`${path}.pipe`]);
    await rename(`${path}.pipe`, path);
    await watch.until(() => watch.errors.length > 0);
    expect(watch.errors).toMatchObject([{ kind: "unreadable", cause: { code: "ENOTREGULAR" } }]);
    expect(ask(watch, "old")).toBe("accepted");
    expect(watch.authenticator.tokens()).toMatchObject({ listed: 1, isCurrent: false });
    await unlink(path);
    await writeFile(path, textFor("new"));
    await watch.until(() => ask(watch, "new") === "accepted");
  });

  test("once, however long the file stays away", async () => {
    const path = join(folder, "tokens");
    await writeFile(path, textFor("old"));
    const watch = await watching(path);
    await unlink(path);
    await watch.until(() => watch.errors.length > 0);
    for (const text of ["1", "2"]) {
      // A second file tells when the first has been read again.
      await writeFile(join(folder, "witness"), textFor(text));
      const witness = await watching(join(folder, "witness"));
      await writeFile(join(folder, "witness"), textFor(`${text}+`));
      await witness.until(() => ask(witness, `${text}+`) === "accepted");
    }
    // Renamed, because a write in place is empty for a moment.
    await writeFile(`${path}.new`, textFor("old"));
    await rename(`${path}.new`, path);
    await watch.until(() => watch.reloads.length > 0);
    expect(watch).toMatchObject({ reloads: [1], errors: [{ kind: "unreadable" }] });
    expect(ask(watch, "old")).toBe("accepted");
  });

  test("when its folder is gone as well, until there is another", async () => {
    const inner = join(folder, "inner");
    await mkdir(inner);
    await writeFile(join(inner, "tokens"), textFor("old"));
    const watch = await watching(join(inner, "tokens"));
    await rm(inner, { recursive: true });
    await watch.until(() => watch.errors.some(({ kind }) => kind === "unreadable"));
    expect(ask(watch, "old")).toBe("accepted");
    await mkdir(inner);
    await writeFile(join(inner, "tokens"), textFor("new"));
    await watch.until(() => ask(watch, "new") === "accepted");
  });
});

test("a change of nothing is no reload", async () => {
  const path = join(folder, "tokens");
  await writeFile(path, textFor("a"));
  await writeFile(join(folder, "witness"), textFor("a"));
  const watch = await watching(path);
  // A second file tells when the first has been read again.
  const witness = await watching(join(folder, "witness"));
  // Renamed over, because a write in place is empty for a moment, which is a change.
  await writeFile(`${path}.new`, textFor("a"));
  await rename(`${path}.new`, path);
  await writeFile(join(folder, "witness"), textFor("a", "b"));
  await witness.until(() => witness.reloads.length > 0);
  await writeFile(`${path}.new`, textFor("a", "b", "c"));
  await rename(`${path}.new`, path);
  await watch.until(() => watch.reloads.includes(3));
  expect(watch.reloads).toEqual([3]);
});

test("after closing nothing is reread and nothing reported, not even what had just changed", async () => {
  const path = join(folder, "tokens");
  await writeFile(path, textFor("old"));
  const [closed, open] = [await watching(path), await watching(path)];
  const told = watchFolder(folder);
  const change = once(told, "change");
  await writeFile(path, textFor("new"));
  await change;
  told.close();
  closed.authenticator.close();
  await open.until(() => ask(open, "new") === "accepted");
  await writeFile(path, "wrong");
  await open.until(() => open.errors.length > 0);
  expect(ask(closed, "old")).toBe("accepted");
  expect(closed).toMatchObject({ reloads: [], errors: [] });
});

describe("with readings at will", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
  afterEach(() => void vi.useRealTimers());

  const watcher = () => new FileWatcher(1_000);

  async function open(watcher: FileWatcher, name: string): Promise<{ write(...tokens: string[]): Promise<void> }> {
    const path = join(folder, name);
    await writeFile(path, textFor("old"));
    const file = await watcher.open(tokensFile(name, path), { onReload: () => {}, onError: () => {} });
    onTestFinished(() => file.close());
    return { write: (...tokens) => writeFile(path, textFor(...tokens)) };
  }

  /** The timer for the next reading is set when one is over. */
  async function read(): Promise<void> {
    vi.advanceTimersByTime(1_000);
    while (vi.getTimerCount() === 0) await new Promise((resolve) => setImmediate(resolve));
  }

  test("a file is taken when two readings in a row find the same, and not while it still changes", async () => {
    const files = watcher();
    const taken: string[][] = [];
    files.onChange = () => void taken.push([...files.take().taken]);
    const one = await open(files, "one");
    await read();
    for (const token of ["a", "b", "c"]) {
      await one.write(token);
      await read();
      expect(taken).toEqual([]);
    }
    await read();
    expect(taken).toEqual([["one"]]);
    await one.write("d");
    await files.reread();
    expect(files.take()).toEqual({ taken: ["one"], refused: [] });
  });

  test("files that are changed one after the other are taken together, but none waits for ever", async () => {
    const files = watcher();
    const taken: string[][] = [];
    files.onChange = () => void taken.push([...files.take().taken]);
    const [one, two] = [await open(files, "one"), await open(files, "two")];
    await read();
    await one.write("a");
    await read();
    await two.write("a");
    await read();
    expect(taken).toEqual([]);
    await read();
    expect(taken).toEqual([["one", "two"]]);
    await one.write("b");
    for (const token of ["b", "c", "d", "e"]) {
      await two.write(token);
      await read();
    }
    expect(taken).toEqual([["one", "two"], ["one"]]);
  });
});

describe("an offer", () => {
  async function offering() {
    const path = join(folder, "offered");
    await writeFile(path, textFor("a"));
    const watcher = new FileWatcher(1_000_000);
    const silent = { onReload: () => {}, onError: () => {} };
    const file = await watcher.open(tokensFile("auth.tokensFile", path), silent);
    onTestFinished(() => file.close());
    const write = async (...tokens: string[]) => {
      await writeFile(path, textFor(...tokens));
      await watcher.reread();
    };
    return {
      watcher,
      file,
      write,
      text: (offer: { contents: ReadonlyMap<string, string> }) => [...offer.contents.values()],
    };
  }

  test("has the contents that are in use when it is taken, and is taken once, even if they are read again meanwhile", async () => {
    const { watcher, file, write, text } = await offering();
    expect(watcher.offer().hasNews).toBe(false);
    await write("b", "c");
    const offer = watcher.offer();
    expect([offer.hasNews, text(offer), [...watcher.contents().values()]]).toEqual([
      true,
      [textFor("b", "c")],
      [textFor("a")],
    ]);
    await watcher.reread();
    expect(file.value.size).toBe(1);
    expect(watcher.take(offer).taken).toEqual(["auth.tokensFile"]);
    expect(file.value.size).toBe(2);
    expect(watcher.offer().hasNews).toBe(false);
    expect(watcher.take().taken).toEqual([]);
  });

  test("leaves a newer version for the next one, and says whether the files are in use as they are", async () => {
    const { watcher, file, write } = await offering();
    await write("b", "c");
    const offer = watcher.offer();
    await write("d", "e", "f");
    watcher.take(offer);
    expect(file.value.size).toBe(2);
    watcher.take(watcher.offer());
    expect([file.value.size, file.isCurrent]).toEqual([3, true]);
    await writeFile(join(folder, "offered"), "no digest\n");
    await watcher.reread();
    expect([file.value.size, file.isCurrent, watcher.offer().hasNews]).toEqual([3, false, false]);
  });
});
