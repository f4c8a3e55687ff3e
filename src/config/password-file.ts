// A file with a password: one line. Quotes nothing from the file.
import type { FileGroup } from "../core/file-group.ts";
import { passwordIn } from "../core/password.ts";

export function passwordFile(key: string, path: string | null): FileGroup<string | null> {
  return {
    paths: { [key]: path },
    parse({ [key]: text }) {
      if (path === null) return { ok: true, value: null };
      if (text === undefined) return { ok: false, flaws: [] };
      const value = passwordIn(text);
      if (value !== null) return { ok: true, value };
      const found = text.trim() === "" ? "an empty file" : "several lines";
      return { ok: false, flaws: [{ key, found, expected: "one line with the password" }] };
    },
  };
}
