import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** Besides, cases that take long: `npm test` tries few runs or cases of each file. */
const properties = [
  "test/limits/calendar.test.ts",
  "test/core/counter-key.test.ts",
  "test/core/ip-address.test.ts",
  "test/core/network-set.test.ts",
  "test/auth/rules.test.ts",
  "test/auth/token-list.test.ts",
  "test/core/client-share.test.ts",
  "test/core/network-map.test.ts",
  "test/core/request-path.test.ts",
  "test/core/rules-in-force.test.ts",
  "test/finance-backend/calendar.test.ts",
  "test/telemetry/access-log.test.ts",
  "test/runtime-rules/rule-book.test.ts",
  "test/auth/who.test.ts",
  "test/exchange/matrix.test.ts",
  "test/http1/body-decoder.test.ts",
  "test/http1/remembered-heads.test.ts",
  "test/http1/request-head.test.ts",
  "test/listener/bounds.test.ts",
  "test/listener/connection-limiter.test.ts",
  "test/listener/proxy-header.test.ts",
  "test/listener/proxy-protocol.test.ts",
  "test/listener/tls.test.ts",
  "test/core/request-path.cost.test.ts",
  "test/core/request-path.property.test.ts",
  "test/finance-backend/pagination.test.ts",
  "test/limits/calendar-steps.test.ts",
  "test/limits/charged-model.test.ts",
  "test/gateway/clients-check.test.ts",
  "test/limits/eviction.test.ts",
  "test/limits/exhausted-keys.test.ts",
  "test/limits/forgiveness.test.ts",
  "test/limits/judge.test.ts",
  "test/limits/key-listing.test.ts",
  "test/limits/naive-log.test.ts",
  "test/limits/policy-model.test.ts",
  "test/limits/quota-questions.test.ts",
  "test/limits/refusal-buckets.test.ts",
  "test/limits/table/coarse-keys.test.ts",
  "test/limits/table/deaths.test.ts",
  "test/limits/table/directory.test.ts",
  "test/limits/table/key-log.test.ts",
  "test/limits/table/pressure.test.ts",
  "test/limits/table/repair.test.ts",
  "test/limits/table/forgiveness.test.ts",
  "test/limits/table/hash-flood.test.ts",
  "test/limits/units.test.ts",
  "test/limits/work.test.ts",
  "test/limits/store/redis/reply-guard.test.ts",
  "test/telemetry/recent/history.test.ts",
  "test/telemetry/recent/refusals.test.ts",
  "test/telemetry/recent/sketch.test.ts",
  "test/upstream/cancelled.test.ts",
  "test/upstream/client-shares.test.ts",
  "test/upstream/connection-logins.test.ts",
  "test/upstream/fair-queue.test.ts",
  "test/upstream/named-in-connection.test.ts",
  "test/upstream/reused-memory.test.ts",
  "test/upstream/response-parser.test.ts",
  "test/upstream/held-requests.test.ts",
  "test/upstream/streaming.test.ts",
  "test/upstream/unsolicited-responses.test.ts",
  "test/upstream/upstream-connections.test.ts",
  "test/upstream/web-sockets.test.ts",
  "test/transport/http1-pieces.test.ts",
  "test/transport/http2.test.ts",
  "test/transport/http2-close.test.ts",
  "test/transport/http2-frames.test.ts",
  "test/transport/request-reader.test.ts",
  "test/conformance/rotation.test.ts",
  "test/config/load.test.ts",
  "test/commands/admin/top/screen.test.ts",
  "test/commands/admin/console.test.ts",
  "test/conformance/message-rules.test.ts",
  "test/conformance/policies/keys.test.ts",
  "test/ext-auth/grpc/decisions.test.ts",
  "test/ext-auth/ways.test.ts",
  "test/conformance/paths/open-and-closed.test.ts",
  "test/conformance/paths/paths.test.ts",
  "test/config/policy-fuzz.test.ts",
  "test/core/network-table.test.ts",
  "test/limits/policy-match.test.ts",
];

/** Gateways with two threads that carry traffic: `npm test` tries one thread. */
const threaded = [
  "test/gateway/admin-api.test.ts",
  "test/gateway/clients.test.ts",
  "test/reload/judged-trial.test.ts",
  "test/reload/reload.test.ts",
  "test/reload/trial.test.ts",
  "test/runtime-rules/gateway.test.ts",
  "test/runtime-rules/restart.test.ts",
  "test/telemetry/recent/gateway.test.ts",
];

/** Tests that measure time, CPU or memory, or that fail if a process waits long for its turn. */
const alone = [
  "test/admin/slow-heads.long.ts",
  "test/conformance/backpressure.long.ts",
  "test/conformance/cost-search.long.ts",
  "test/conformance/endings/endings.long.ts",
  "test/conformance/faults/*.long.ts",
  "test/conformance/turns.long.ts",
  "test/core/request-path.long.ts",
  "test/limits/table/*.long.ts",
  "test/monitoring/prometheus.long.ts",
  "test/reload/reloads.long.ts",
  "test/shared-store/*.long.ts",
  "test/workers/endings.long.ts",
];

/** A minute or more each, and seldom broken: `npm run test:rare` alone runs them. */
const rare = [
  "test/conformance/cost-search.long.ts",
  "test/conformance/policies/slots.long.ts",
  "test/fastify/stock-pair.long.ts",
  "test/limits/table/flood.long.ts",
  "test/shared-store/cut-off.long.ts",
  "test/shared-store/forgiveness-kills.long.ts",
  "test/simulation/mutations.long.ts",
];
/** A fifth of the cases or runs, or most of them, is tried by `npm run test:long`, all by `npm run test:rare`. */
const thinned = [
  "test/conformance/backpressure.long.ts",
  "test/conformance/faults/connection-churn.long.ts",
  "test/reload/reloads.long.ts",
  "test/simulation/seeds.long.ts",
  "test/conformance/boundaries/in-process.long.ts",
  "test/conformance/fuzz/requests.long.ts",
  "test/conformance/fuzz/responses.long.ts",
  "test/conformance/paths/open-and-closed.test.ts",
  "test/console/hostile.long.ts",
  "test/http2/mutated.long.ts",
  "test/limits/store/script.long.ts",
  "test/auth/who.test.ts",
  "test/conformance/boundaries/servers.long.ts",
  "test/conformance/faults/aborts.long.ts",
  "test/conformance/faults/idle-closes.long.ts",
  "test/conformance/fuzz/http2-chaos.long.ts",
  "test/conformance/rotation.long.ts",
  "test/core/network-table.test.ts",
  "test/http2/hpack-sequences.long.ts",
  "test/limits/calendar-steps.test.ts",
  "test/limits/charged-model.test.ts",
  "test/limits/forgiveness.test.ts",
  "test/limits/naive-log.test.ts",
  "test/limits/policy-model.test.ts",
  "test/limits/table/deaths.test.ts",
  "test/limits/table/key-log.test.ts",
  "test/listener/connection-limiter.test.ts",
  "test/shared-store/faults.long.ts",
  "test/shared-store/one-limit.long.ts",
  "test/snapshots/wall-clock.long.ts",
];
const isRare = process.env["HEADGATE_RARE"] !== undefined;

const shared = {
  setupFiles: ["test/support/property-seed.ts"],
  // Properties are tried with all of their runs.
  env: { HEADGATE_RUNS: "full" },
  testTimeout: 120_000,
  hookTimeout: 20_000,
  // As long as `eventually` waits. By default it is a second, for which a busy machine may stand still.
  expect: { poll: { timeout: 5_000 } },
  // Of those tests of a file that say that they can run at the same time: mostly they wait.
  maxConcurrency: 2,
};

// What takes too long for every `npm test`: each file says what it shows, and has its own bound.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...shared,
          // As in vitest.config.ts. What is measured alone is measured with what it compiles.
          env: {
            ...shared.env,
            NODE_COMPILE_CACHE: fileURLToPath(new URL("node_modules/.cache/tests", import.meta.url)),
          },
          name: "together",
          include: ["test/**/*.long.ts", ...properties, ...threaded],
          exclude: [...alone, ...rare],
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...shared,
          name: "alone",
          include: isRare ? [...rare, ...thinned] : alone,
          exclude: isRare ? [] : rare,
          maxWorkers: 1,
          // The endings alone do so. Each has a process of its own, and waits half of the time.
          maxConcurrency: 4,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
