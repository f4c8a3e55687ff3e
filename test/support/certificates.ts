// Certificates made when a test runs, by the openssl command: an authority, and what it signs. Nothing of it is worth
// stealing, and nothing of it can expire in the repository.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listenTlsFiles } from "../../src/config/tls-files.ts";
import type { Certificate } from "../../src/core/settings.ts";

/** Paths of PEM files, and what is in them. */
export interface Issued {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
}

export interface IssueOptions {
  /** As openssl writes them: `DNS:localhost`, `IP:127.0.0.1`. */
  readonly names?: readonly string[];
  /** Counted from now; negative is past. */
  readonly validDays?: readonly [from: number, until: number];
}

export class Authority {
  readonly #folder: string;
  readonly #root: Issued;
  #serial = 0;

  /** Makes a folder of its own; `cleanup` removes it. */
  constructor(cleanup: (remove: () => void) => unknown) {
    this.#folder = mkdtempSync(join(tmpdir(), "headgate-certificates-"));
    cleanup(() => rmSync(this.#folder, { recursive: true, force: true }));
    const certFile = join(this.#folder, "root.cert.pem");
    const keyFile = join(this.#folder, "root.key.pem");
    this.#openssl("req", "-x509", ...newKey(keyFile), "-out", certFile, "-days", "2", "-subj", "/CN=Test Authority");
    this.#root = read(certFile, keyFile);
    this.write("index.txt", "");
    this.write("ca.conf", authorityConfig);
  }

  /** PEM file of the authority's own certificate. */
  get certFile(): string {
    return this.#root.certFile;
  }

  get cert(): string {
    return this.#root.cert;
  }

  /** Good for servers and clients. Named for localhost on both families unless told otherwise. */
  issue(options: IssueOptions = {}): Issued {
    const { names = ["DNS:localhost", "IP:127.0.0.1", "IP:::1"], validDays = [-1, 2] } = options;
    this.#serial += 1;
    const name = `issued-${this.#serial}`;
    const certFile = join(this.#folder, `${name}.cert.pem`);
    const keyFile = join(this.#folder, `${name}.key.pem`);
    const requestFile = join(this.#folder, `${name}.csr`);
    const named = names.length > 0 ? `subjectAltName=${names.join(",")}\n` : "";
    const extensions = this.write(`${name}.ext`, `basicConstraints=critical,CA:FALSE\n${named}`);
    this.#openssl("req", "-new", ...newKey(keyFile), "-out", requestFile, "-subj", `/CN=${name}`);
    const [from, until] = validDays.map(openSslTime) as [string, string];
    const authority = ["-config", "ca.conf", "-cert", this.#root.certFile, "-keyfile", this.#root.keyFile];
    const dates = ["-startdate", from, "-enddate", until];
    const files = ["-extfile", extensions, "-in", requestFile, "-out", certFile];
    this.#openssl("ca", "-batch", "-notext", "-rand_serial", ...authority, ...dates, ...files);
    return read(certFile, keyFile);
  }

  /** Puts a file beside the certificates, or another text into it, and returns its path. */
  write(name: string, text: string): string {
    const path = join(this.#folder, name);
    writeFileSync(path, text);
    return path;
  }

  #openssl(...args: string[]): void {
    execFileSync("openssl", args, { stdio: "pipe", cwd: this.#folder });
  }
}

/** As a listener with the defaults uses it. */
export function certificateOf({ cert, key }: Pick<Issued, "cert" | "key">): Certificate {
  const texts = { "listen.tls.cert": cert, "listen.tls.key": key };
  const reading = listenTlsFiles({ cert: null, key: null, clientCa: null }).parse(texts, true);
  if (!reading.ok) throw new Error("the certificate cannot be used");
  return reading.value;
}

const authorityConfig = `
[ca]
default_ca = here
[here]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
`;

function newKey(keyFile: string): string[] {
  return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", keyFile];
}

function read(certFile: string, keyFile: string): Issued {
  return { certFile, keyFile, cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8") };
}

/** As in `20260131235959Z`. */
function openSslTime(daysFromNow: number): string {
  const iso = new Date(Date.now() + daysFromNow * 86_400_000).toISOString();
  return `${iso.slice(0, 19).replaceAll(/[-:T]/g, "")}Z`;
}
