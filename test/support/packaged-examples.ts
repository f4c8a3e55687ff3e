// The examples in config/headgate.yaml: commented out below `policies`, each with a sentence that says what it is.
import { readFileSync } from "node:fs";
import { packagedConfigFile } from "../../src/config/load.ts";

export interface PackagedExample {
  /** The sentences above it. */
  readonly title: string;
  /** The whole file with this example no longer commented out. */
  readonly text: string;
}

const lines = readFileSync(packagedConfigFile, "utf8").split("\n");
const begin = lines.indexOf("policies:") + 1;
const end = lines.findIndex((line, i) => i > begin && /^# /.test(line));
/** A comment that is a line of YAML. */
const isCode = (line: string): boolean => /^ +# (- [a-z]\w*: |[a-z]\w*: [^ ]| )/.test(line);
const isProse = (line: string): boolean => /^ +# /.test(line) && !isCode(line);

export function packagedExamples(): readonly PackagedExample[] {
  const starts = lines.flatMap((line, i) =>
    i >= begin && i < end && isProse(line) && !isProse(lines[i - 1] ?? "") ? [i] : [],
  );
  return starts.map((start, n) => {
    const next = starts[n + 1] ?? end;
    const prose = lines.slice(start, next).filter(isProse);
    return {
      title: prose.map((line) => line.replace(/^ +# /, "")).join(" "),
      text: textWith((i) => i >= start && i < next),
    };
  });
}

/** The file with all examples at once. */
export function allPackagedExamples(): string {
  return textWith((i) => i >= begin && i < end);
}

function textWith(isWanted: (index: number) => boolean): string {
  return lines.map((line, i) => (isWanted(i) && isCode(line) ? line.replace("# ", "") : line)).join("\n");
}
