// GitHub's workflows: what they may do, which actions they run, and that the scripts which they call exist.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { read, root } from "../docs/markdown.ts";

interface Job {
  readonly "timeout-minutes"?: number;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly steps: readonly { readonly run?: string; readonly env?: Readonly<Record<string, unknown>> }[];
}

const folder = ".github/workflows";
const workflows = readdirSync(join(root, folder)).map((name) => {
  const text = read(`${folder}/${name}`);
  const { permissions, jobs } = parse(text) as { permissions: unknown; jobs: Readonly<Record<string, Job>> };
  return { name, text, permissions, jobs: Object.entries(jobs) };
});
const { scripts } = JSON.parse(read("package.json")) as { scripts: Readonly<Record<string, string>> };

/** Who may write what. Everything else reads the sources at most. */
const written: Readonly<Record<string, readonly string[]>> = {
  "release.yaml build": ["id-token", "attestations"],
  "release.yaml npm": ["id-token"],
  "release.yaml image": ["packages", "id-token"],
  "release.yaml chart": ["packages", "id-token"],
  "release.yaml draft": ["contents"],
  "safe-node.yaml renew": ["contents", "pull-requests"],
  "codeql.yaml analyze": ["security-events"],
  "scorecard.yaml analyze": ["security-events", "id-token"],
};

test("there are workflows", () => {
  expect(workflows.length).toBeGreaterThan(3);
});

describe.each(workflows)("$name", ({ name, text, permissions, jobs }) => {
  test("runs each action by the digest of a commit, and says its version", () => {
    const used = [...text.matchAll(/\buses: *(.*)$/gm)].map(([, action = ""]) => action);
    expect(used.filter((action) => !/^[\w-]+\/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([]);
    expect(text).not.toMatch(/pull_request_target|secrets\./);
  });

  test("may write only what its job writes, and each job ends", () => {
    expect(permissions).toEqual({ contents: "read" });
    for (const [job, { permissions: own = {}, "timeout-minutes": minutes }] of jobs) {
      const writes = Object.keys(own).filter((key) => own[key] !== "read");
      expect({ job, writes }).toEqual({ job, writes: written[`${name} ${job}`] ?? [] });
      expect(minutes).toBeGreaterThan(0);
    }
  });

  test("puts nothing of an event into a script, and calls scripts that exist", () => {
    const runs = jobs.flatMap(([, { steps }]) => steps.flatMap(({ run }) => run ?? []));
    expect(runs.filter((run) => run.includes("${{"))).toEqual([]);
    const called = runs.flatMap((run) => [...run.matchAll(/npm (?:run )?([\w:-]+)|(\.ci\/[\w-]+)/g)]);
    const own = ["ci", "stage", "test"];
    const missing = called.filter(([, script, file]) =>
      file === undefined
        ? !own.includes(script ?? "") && scripts[script ?? ""] === undefined
        : !existsSync(join(root, file)),
    );
    expect(missing.map(([text]) => text)).toEqual([]);
  });
});

test("one action has one digest", () => {
  const digests = new Map<string, Set<string>>();
  for (const [, action = "", digest = ""] of workflows.flatMap(({ text }) => [
    ...text.matchAll(/uses: ([\w-]+\/[\w-]+)\S*@(\S+)/g),
  ])) {
    digests.set(action, (digests.get(action) ?? new Set()).add(digest));
  }
  expect([...digests].filter(([, those]) => those.size > 1)).toEqual([]);
});
