// `headgate/fastify`: the gate for people who already run a Fastify app. docs/fastify.md says what of the gateway's contract
// holds there.
import { systemClock } from "../core/clock.ts";
import { createPlugin } from "./plugin.ts";

export type { Headgate, HeadgateOptions } from "./options.ts";
export { OptionsError } from "./plugin-options.ts";
export { serverOptions } from "./server-options.ts";

export const headgate = createPlugin({ clock: systemClock, nodeVersion: process.versions.node });
export default headgate;
