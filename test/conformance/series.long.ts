// As in series.test.ts, with many more requests.
import { test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { expectSameSeries } from "./series.ts";

const cleanup = useCleanup();

test("10,000 different clients, paths, methods and tokens leave the series as they were", () =>
  expectSameSeries(10_000, cleanup));
