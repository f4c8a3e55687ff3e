// Ends the process with a clear message where Node is too old. Main imports this file before any other, and the npm scripts
// preload it, because an older Node loads no TypeScript. So it is JavaScript that Node 18 runs, and it imports nothing.

/** In an older version the HTTP server has no `shouldUpgradeCallback`. */
const oldest = { major: 24, minor: 9 };

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < oldest.major || (major === oldest.major && minor < oldest.minor)) {
  const expected = `${oldest.major}.${oldest.minor}`;
  process.stderr.write(`headgate: found Node ${process.versions.node}, expected ${expected} or later\n`);
  // `exitCodes.unavailable`.
  process.exit(69);
}
