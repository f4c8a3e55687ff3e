// The certificate that everybody serves over TLS: made at the start of a run, for this machine only.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { installed } from "./processes.ts";

/** Paths. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
  /** Both in one file, as HAProxy wants them. */
  readonly both: string;
}

/** Undefined without openssl. */
export function makeCertificate(folder: string): Certificate | undefined {
  if (!installed("openssl")) return undefined;
  const [cert, key, both] = ["cert.pem", "key.pem", "both.pem"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const keyOptions = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key];
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2"];
  execFileSync("openssl", ["req", "-x509", ...keyOptions, ...subject, "-out", cert], { stdio: "ignore" });
  writeFileSync(both, readFileSync(cert, "utf8") + readFileSync(key, "utf8"));
  return { cert, key, both };
}
