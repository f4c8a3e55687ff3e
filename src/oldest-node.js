// Ends the process with a clear message where Node is too old. Main imports this file before any other, and the npm scripts
// preload it, because an older Node loads no TypeScript. So it is JavaScript that Node 18 runs, and it imports nothing.

/**
 * In an older version and in 25, libuv takes a reset that comes together with bytes for an end, so that half a response without
 * a length would pass for a whole one.
 */
const oldest = { major: 24, minor: 16, not: 25 };

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < oldest.major || (major === oldest.major && minor < oldest.minor) || major === oldest.not) {
  const expected = `${oldest.major}.${oldest.minor} or later, and not ${oldest.not}`;
  process.stderr.write(`headgate: found Node ${process.versions.node}, expected ${expected}\n`);
  // `exitCodes.unavailable`.
  process.exit(69);
}
