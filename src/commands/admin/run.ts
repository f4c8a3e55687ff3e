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
  if (invocation.command === "top") {
    const { runTop } = await import("./top/top.ts");
    return withGateway(invocation, io, version, (gateway) => runTop(gateway, invocation.wanted, invocation.isJson, io));
  }
  if (invocation.command === "console") {
    const { runConsole } = await import("./console-command.ts");
    return withGateway(invocation, io, version, (gateway) => {
      return runConsole(gateway, invocation.wanted, invocation.isJson, io);
    });
  }
  const ask = await commandOf(invocation);
  return withGateway(invocation, io, version, async (gateway) => {
    const { answer, lines, warnings = [], exitCode = exitCodes.ok } = await ask(gateway);
    if (invocation.isJson) io.out(jsonText(answer));
    else {
      io.out(linesText(lines()));
      io.err(linesText(warnings.map((warning) => `warning: ${warning}`)));
    }
    return exitCode;
  });
}

type Ask = (gateway: ConnectedGateway) => Promise<Report>;

/** All but those that go on until they are ended. */
type ReportInvocation = Exclude<AdminInvocation, { readonly command: "top" | "console" }>;

async function commandOf(invocation: ReportInvocation): Promise<Ask> {
  const { connection } = invocation;
  switch (invocation.command) {
    case "status": {
      const { reportStatus } = await import("./status-report.ts");
      return reportStatus;
    }
    case "clients": {
      const { reportClients } = await import("./client-report.ts");
      return (gateway) => reportClients(gateway, invocation.wanted);
    }
    case "why": {
      const { reportWhy } = await import("./why-report.ts");
      return (gateway) => reportWhy(gateway, invocation.asked, connection);
    }
    case "forgive": {
      const { reportForgiven } = await import("./client-report.ts");
      return (gateway) => reportForgiven(gateway, invocation.whom, connection);
    }
    case "block":
    case "exempt":
    case "limit": {
      const { reportRuleSet } = await import("./rule-report.ts");
      return (gateway) => reportRuleSet(gateway, invocation.rule, connection);
    }
    case "rules": {
      const { reportRuleRemoved, reportRules } = await import("./rule-report.ts");
      const { remove } = invocation;
      return (gateway) => (remove === null ? reportRules(gateway) : reportRuleRemoved(gateway, remove));
    }
    case "reload": {
      const { reportReload } = await import("./reload-report.ts");
      return (gateway) => reportReload(gateway, invocation.trial, connection);
    }
    case "confirm":
    case "take-back": {
      const { reportTrialEnd } = await import("./reload-report.ts");
      return (gateway) => reportTrialEnd(gateway, invocation.command);
    }
    case "drain": {
      const { reportDrain } = await import("./reload-report.ts");
      return reportDrain;
    }
    case "config": {
      const { reportConfig } = await import("./config-report.ts");
      return (gateway) => reportConfig(gateway, invocation.against);
    }
  }
}
