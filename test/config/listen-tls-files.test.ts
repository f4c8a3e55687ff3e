// Real files in a real folder, changed in the ways in which files are changed, and the words an operator reads when one
// of them is wrong.
import { execFileSync } from "node:child_process";
import { mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { FilesError, FileWatcher } from "../../src/config/files.ts";
import { certificateWarning, listenTlsFiles } from "../../src/config/tls-files.ts";
import type { FileError } from "../../src/core/file-group.ts";
import type { Certificate, TlsFiles } from "../../src/core/settings.ts";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";

const cleanup = useCleanup();

async function watching(cert: string, key: string, clientCa: string | null = null) {
  const reloads: Certificate[] = [];
  const errors: FileError[] = [];
  const changes: TlsFiles[] = [];
  const events = {
    onReload: (now: Certificate) => void reloads.push(now),
    onError: (why: readonly FileError[]) => void errors.push(...why),
  };
  const files = cleanup(await new FileWatcher(5).open(listenTlsFiles({ cert, key, clientCa }), events));
  files.onChange = (texts) => void changes.push(texts);
  return { files, reloads, errors, changes };
}

describe("what is wrong is said, without a word of what is in the files", () => {
  const authority = (): Authority => new Authority(cleanup);
  const texts = (changes: (issued: { cert: string; key: string }, by: Authority) => Partial<TlsFiles>) => {
    const by = authority();
    const { cert, key } = by.issue();
    const texts = { cert, key, clientCa: null, ...changes({ cert, key }, by) };
    const byKey = Object.entries(texts).map(([name, text]) => [`listen.tls.${name}`, text ?? undefined]);
    return listenTlsFiles({ cert: null, key: null, clientCa: null }).parse(Object.fromEntries(byKey), true);
  };

  test.each<[claim: string, reading: () => ReturnType<typeof texts>, flaws: readonly (readonly [string, string])[]]>([
    ["nothing is wrong", () => texts(() => ({})), []],
    ["a chain", () => texts(({ cert }, by) => ({ cert: cert + by.cert })), []],
    ["an authority", () => texts((_, by) => ({ clientCa: by.cert })), []],
    ["an empty certificate", () => texts(() => ({ cert: "" })), [["cert", "no certificate"]]],
    ["the key as certificate", () => texts(({ key }) => ({ cert: key })), [["cert", "no certificate"]]],
    [
      "a damaged certificate",
      () => texts(({ cert }) => ({ cert: cert.replace(/\n.{30}/, "\n") })),
      [["cert", expect.stringMatching(/^a certificate that cannot be read \(number 1: [\w ]+\)$/)]],
    ],
    [
      "a chain that was cut off",
      () => texts(({ cert }, by) => ({ cert: cert + by.cert.slice(0, -60) })),
      [["cert", expect.stringMatching(/^a certificate that cannot be read \(number 2: [\w ]+\)$/)]],
    ],
    [
      "a chain with text and a key between",
      () => texts(({ cert, key }, by) => ({ cert: `# a\n${cert}${key}# b\n${by.cert}# c` })),
      [],
    ],
    ["the certificate as key", () => texts(({ cert }) => ({ key: cert })), [["key", "no private key"]]],
    [
      "a damaged key",
      () => texts(({ key }) => ({ key: key.replace(/\n.{30}/, "\n") })),
      [["key", expect.stringMatching(/^a private key that cannot be read \([\w :]+\)$/)]],
    ],
    [
      "a key with a passphrase",
      () => texts(({ key }) => ({ key: key.replaceAll("PRIVATE", "ENCRYPTED PRIVATE") })),
      [["key", "a private key with a passphrase"]],
    ],
    [
      "another certificate's key",
      () => texts((_, by) => ({ key: by.issue().key })),
      [["key", "a key that does not belong to the certificate"]],
    ],
    ["no authority", () => texts(() => ({ clientCa: "x" })), [["clientCa", "no certificate"]]],
    [
      "a certificate of no authority",
      () => texts(({ cert }) => ({ clientCa: cert })),
      [["clientCa", "a certificate of no authority"]],
    ],
    [
      "everything at once",
      () => texts(() => ({ cert: "", key: "", clientCa: "" })),
      [
        ["cert", "no certificate"],
        ["key", "no private key"],
        ["clientCa", "no certificate"],
      ],
    ],
  ])("%s", (_, read, flaws) => {
    const reading = read();
    expect(reading.ok ? [] : reading.flaws.map(({ key, found }) => [key.replace("listen.tls.", ""), found])).toEqual(
      flaws,
    );
  });

  const day = 86_400_000;
  test.each([
    [0, 100 * day, 50 * day, null],
    [0, 100 * day, 100 * day, "has expired"],
    [10, 100 * day, 9, "is not valid yet"],
    [0, 100 * day, 86 * day, null],
    [0, 100 * day, 86 * day + 1, "expires in 13 days"],
    [0, 100 * day, 99 * day, "expires in 1 day"],
  ])("valid from %d until %d, at %d: %s", (validFromMs, expiresMs, nowMs, warning) => {
    expect(certificateWarning({ validFromMs, expiresMs }, nowMs)).toBe(warning);
  });

  test("files that cannot be used to begin with are refused", async () => {
    const by = authority();
    const { certFile, keyFile } = by.issue();
    const why = async (...paths: [string, string, string?]) =>
      await watching(...paths).then(
        () => undefined,
        (error: unknown) => (error instanceof FilesError ? error.errors : error),
      );
    expect(await why(certFile, `${keyFile}.not`)).toMatchObject([{ kind: "unreadable", key: "listen.tls.key" }]);
    expect(await why(certFile, certFile)).toMatchObject([{ kind: "invalid", key: "listen.tls.key" }]);
    expect(await why(certFile, keyFile, keyFile)).toMatchObject([{ kind: "invalid", key: "listen.tls.clientCa" }]);
  });
});

describe("a change of the files", () => {
  test("one after the other is taken over when both are there, in either order", async () => {
    const authority = new Authority(cleanup);
    const { certFile, keyFile } = authority.issue();
    const { files, reloads, changes } = await watching(certFile, keyFile);
    for (const order of [["cert", "key"] as const, ["key", "cert"] as const]) {
      const next = authority.issue();
      const before = reloads.length;
      for (const file of order) writeFileSync(file === "cert" ? certFile : keyFile, next[file]);
      await eventually("it is in use", () => reloads.length > before);
      expect(files.value).toMatchObject({ cert: next.cert, key: next.key });
      expect(files.isCurrent).toBe(true);
    }
    expect(changes).toHaveLength(2);
  });

  test("swapped by links, as a mounted secret is", async () => {
    const authority = new Authority(cleanup);
    const [first, second] = [authority.issue(), authority.issue()];
    const folder = dirname(first.certFile);
    const publish = (version: number, { cert, key }: { cert: string; key: string }): void => {
      mkdirSync(join(folder, `..${version}`));
      writeFileSync(join(folder, `..${version}`, "tls.crt"), cert);
      writeFileSync(join(folder, `..${version}`, "tls.key"), key);
      symlinkSync(`..${version}`, join(folder, "..new"));
      renameSync(join(folder, "..new"), join(folder, "..data"));
      rmSync(join(folder, `..${version - 1}`), { recursive: true, force: true });
    };
    publish(1, first);
    for (const name of ["tls.crt", "tls.key"]) symlinkSync(join("..data", name), join(folder, name));
    const { files, errors } = await watching(join(folder, "tls.crt"), join(folder, "tls.key"));
    publish(2, second);
    await eventually("it is in use", () => files.value.cert === second.cert);
    expect(errors).toEqual([]);
  });

  test("to what cannot be used is told once, keeps what was in use, and ends with the files' return", async () => {
    const authority = new Authority(cleanup);
    const issued = authority.issue();
    const { certFile, keyFile } = issued;
    const { files, reloads, errors, changes } = await watching(certFile, keyFile);
    writeFileSync(certFile, "half of a certif");
    await eventually("it is told", () => errors.length === 1);
    expect(files.isCurrent).toBe(false);
    unlinkSync(certFile);
    await eventually("that is told too", () => errors.length === 2);
    expect(errors).toMatchObject([
      { kind: "invalid", key: "listen.tls.cert", found: "no certificate" },
      { kind: "unreadable", key: "listen.tls.cert", cause: { code: "ENOENT" } },
    ]);
    expect(files.value.cert).toBe(issued.cert);
    writeFileSync(certFile, issued.cert);
    await eventually("it is well again", () => files.isCurrent);
    expect([errors.length, reloads.length, changes.length]).toEqual([2, 1, 0]);
    execFileSync("mkfifo", [`${certFile}.pipe`]);
    renameSync(`${certFile}.pipe`, certFile);
    await eventually("a pipe is told, and not waited for", () => errors.length === 3);
    expect(errors[2]).toMatchObject({ kind: "unreadable", key: "listen.tls.cert", cause: { code: "ENOTREGULAR" } });
  });

  test("after close is not seen", async () => {
    const authority = new Authority(cleanup);
    const { certFile, keyFile } = authority.issue();
    const { files, errors } = await watching(certFile, keyFile);
    const other = await watching(certFile, keyFile);
    files.close();
    unlinkSync(keyFile);
    await eventually("another one sees it", () => other.errors.length === 1);
    expect(errors).toEqual([]);
  });
});
