// What can be said of the image without building it (.ci/image builds and runs it): its label, its user, and that nothing
// in it is for one platform alone.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import lock from "../../package-lock.json" with { type: "json" };

const dockerfile = readFileSync(new URL("../../Dockerfile", import.meta.url), "utf8");

test("the label has the version of the package, and the user is a number that is not root's", () => {
  expect(/image\.version="([^"]+)"/.exec(dockerfile)?.[1]).toBe(packageJson.version);
  const last = dockerfile.slice(dockerfile.lastIndexOf("\nFROM "));
  expect(/^USER (\d+):\d+$/m.exec(last)?.[1]).toBe("1000");
});

test("no production dependency has native code, an install script or a platform of its own", () => {
  const packages: Readonly<Record<string, object>> = lock.packages;
  const production = Object.entries(packages).filter(([path, one]) => path !== "" && !("dev" in one));
  expect(production.length).toBeGreaterThan(20);
  const bound = production.filter(([, one]) => "hasInstallScript" in one || "os" in one || "cpu" in one);
  expect(bound.map(([path]) => path)).toEqual([]);
});
