// What arrives from outside makes no time series: not a client, not a path, not a method, not a token.
import { test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { expectSameSeries } from "./series.ts";

const cleanup = useCleanup();

test("500 different clients, paths, methods and tokens leave the series as they were after the first hundred", () =>
  expectSameSeries(500, cleanup));
