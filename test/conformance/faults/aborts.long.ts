// 10,000 clients, or 50,000 in `npm run test:nightly`, that leave at random moments of every stage: afterwards the gateway holds no socket and no slot more
// than before, and what the upstream was doing for them was broken off at once.
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import { startGatewayProcess } from "../../support/gateway-process.ts";
import { seededRandom } from "../../support/random.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { fifth } from "../../support/runs.ts";
import { request } from "../../support/stage.ts";
import { leave, stages, startPatientUpstream } from "./aborts.ts";

const cleanup = useCleanup();
const departures = fifth(50_000);
const atOnce = 32;
/** Half of all, so one client gets them. Fewer than are asked for at once, so some leave while they wait for a connection. */
const connections = 16;
/** By which the gateway would end a request as well. The machine may stand still for a part of it. */
const responseTimeoutMs = 60_000;

test(`${departures} clients that leave at random moments leave nothing behind`, async () => {
  const upstream = await startPatientUpstream(cleanup);
  const settings = [
    `upstream.maxConnections=${2 * connections}`,
    `upstream.responseTimeout=${responseTimeoutMs}ms`,
    "upgrade.maxTunnels=80",
    "log.access=false",
  ];
  const gateway = await startGatewayProcess(cleanup, upstream.url, settings);
  const filesBefore = gateway.openFiles();
  const random = seededRandom(2);
  const all = Object.values(stages);

  let next = 0;
  const work = async (): Promise<void> => {
    while (next < departures) {
      const id = next++;
      const bytes = all[Math.floor(random() * all.length)]?.(id, random) ?? "";
      const onHeld = (held: () => void): void => upstream.onHeld(id, held);
      await leave(gateway.port, { bytes, onHeld, onLeave: () => upstream.left(id) }, random);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));

  const expected = {
    headgate_client_connections: 0,
    'headgate_upstream_connections{state="active"}': 0,
    'headgate_upstream_connections{state="waiting"}': 0,
    'headgate_upstream_connections{state="idle"}': 0,
    'headgate_tunnels{state="opening"}': 0,
    'headgate_tunnels{state="open"}': 0,
  };
  let figures: ReadonlyMap<string, number> = new Map();
  const now = () => Object.fromEntries(Object.keys(expected).map((name) => [name, figures.get(name)]));
  await eventually(
    "nothing is left",
    async () => {
      figures = await gateway.figures();
      return Object.values(now()).every((figure) => figure === 0) && upstream.openSockets() === 0;
    },
    15_000,
  ).catch(() => {});
  expect(now()).toEqual(expected);
  expect(upstream.openSockets()).toBe(0);
  // The last scrape's own connection is on its way out.
  await eventually("no more files are open than before", () => gateway.openFiles() <= filesBefore);
  expect(gateway.output.out).not.toContain("internal error");
  expect(gateway.output.err).toBe("");
  // Nobody was failed because somebody else had left.
  expect(figures.get('headgate_upstream_errors_total{reason="other"}')).toBe(0);

  // It did happen: in its response, before it, and while waiting for a connection.
  expect(upstream.cancelledAfterMs.length).toBeGreaterThan(departures / 50);
  const sorted = upstream.cancelledAfterMs.toSorted((a, b) => a - b);
  expect(sorted[Math.floor(sorted.length / 2)]).toBeLessThan(100);
  expect(sorted.at(-1)).toBeLessThan(responseTimeoutMs / 2);

  // Every slot can be had again, all of them at once.
  for (let i = 0; i < connections; i += 1) {
    cleanup(new RawConnection(gateway.port)).write(request(`/v2/held/${departures + i}`));
  }
  await eventually("all are at the upstream", () => upstream.heldNow() === connections);
});
