// Other programs that use all processors of the machine.
import { spawn } from "node:child_process";
import { cpus } from "node:os";

/** Uses every processor until the function that it returns is called. */
export function startNeighbours(): () => void {
  const children = cpus().map(() => spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" }));
  return () => {
    for (const child of children) child.kill("SIGKILL");
  };
}
