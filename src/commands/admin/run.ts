// Runs a command that asks a running gateway, and prints its answer: for people, or as JSON. Loads only what the command needs.
import type { AdminArguments } from "../arguments.ts";
import { type CommandIo, exitCodes, usageError } from "../io.ts";
import { type ConnectedGateway, withGateway } from "./connect.ts";
import { type AdminInvocation, readAdminInvocation } from "./invocation.ts";
import { jsonText, linesText, type Report } from "./printed.ts";

/** Resolves with the exit code. `version`: of this command. */
export async function run({ name, given }: AdminArguments, io: CommandIo, version: string): Promise<number> {
  const invocation = readAdminInvocation(name, given);
  if (typeof invocation === "string") {
    io.err(usageError(name, invocation));
    return exitCodes.usage;
  }
  if (invocation.command === "clients" && invocation.isWatch) {
    const { watchClients } = await import("./client-watch.ts");
    return withGateway(invocation, io, version, (gateway) => {
      return watchClients(gateway, invocation.wanted, invocation.isJson, io);
    });
  }
  if (invocation.command === "console") {
    const { runConsole } = await import("./console-command.ts");
    return withGateway(invocation, io, version, (gateway) => {
      return runConsole(gateway, invocation.wanted, invocation.isJson, io);
    });
  }
  return withGateway(invocation, io, version, async (gateway) => {
    const { answer, lines, warnings = [], exitCode = exitCodes.ok } = await reportOf(invocation, gateway);
    if (invocation.isJson) io.out(jsonText(answer));
    else {
      io.out(linesText(lines()));
      io.err(linesText(warnings.map((warning) => `warning: ${warning}`)));
    }
    return exitCode;
  });
}

/** All but one that goes on until it is ended. */
type ReportInvocation = Exclude<AdminInvocation, { readonly command: "console" }>;

async function reportOf(invocation: ReportInvocation, gateway: ConnectedGateway): Promise<Report> {
  const { connection } = invocation;
  switch (invocation.command) {
    case "status":
      return (await import("./status-report.ts")).reportStatus(gateway);
    case "clients":
      return (await import("./client-report.ts")).reportClients(gateway, invocation.wanted);
    case "why":
      return (await import("./why-report.ts")).reportWhy(gateway, invocation.asked, connection);
    case "forgive":
      return (await import("./client-report.ts")).reportForgiven(gateway, invocation.whom, connection);
    case "block":
    case "exempt":
    case "limit":
      return (await import("./rule-report.ts")).reportRuleSet(gateway, invocation.rule, connection);
    case "rules": {
      const { reportRuleRemoved, reportRules } = await import("./rule-report.ts");
      return invocation.remove === null ? reportRules(gateway) : reportRuleRemoved(gateway, invocation.remove);
    }
    case "reload":
      return (await import("./reload-report.ts")).reportReload(gateway, invocation.trial, connection);
    case "confirm":
    case "take-back":
      return (await import("./reload-report.ts")).reportTrialEnd(gateway, invocation.command);
    case "drain":
      return (await import("./reload-report.ts")).reportDrain(gateway);
    case "config":
      return (await import("./config-report.ts")).reportConfig(gateway, invocation.against);
  }
}
