// What became of a reload on trial, in words.
import type { Status } from "../../admin/control-plane.ts";

/** As the end of a sentence, such as `taken back by ops`. */
export function trialEndText({ outcome, reason, by, trial }: NonNullable<Status["lastTrial"]>): string {
  const verb = outcome === "confirmed" ? "confirmed" : "taken back";
  switch (reason) {
    case "asked":
      return `${verb} by ${by === "socket" ? "somebody over the socket" : (by ?? "a program")}`;
    case "time":
      return `${verb}, because ${outcome === "confirmed" ? "its time was over" : "nobody had confirmed it in time"}`;
    case "refused":
      return `${verb}, because it refused ${trial.refused} of ${trial.judged} requests that would have been admitted before`;
    case "reload":
      return `${verb} by another reload, which was not on trial`;
  }
}
