// The schemas of the admin API are plain JSON Schema, made without typebox, whose types they have.
import AjvCompiler from "@fastify/ajv-compiler";
import { Type as TypeBox } from "typebox";
import { expect, test } from "vitest";
import { expectedByPattern, Type } from "../../src/admin/schema-kinds.ts";
import * as schemas from "../../src/admin/schemas.ts";

type Builders = typeof Type;

/** Each function at least once, with options and without. */
const made: Readonly<Record<string, (type: Builders) => unknown>> = {
  array: (type) => type.Array(type.String(), { minItems: 1, description: "many" }),
  "plain array": (type) => type.Array(type.Null()),
  boolean: (type) => [type.Boolean({ description: "on" }), type.Boolean()],
  enum: (type) => [type.Enum(["a", "b"], { description: "one" }), type.Enum(["a"])],
  integer: (type) => [type.Integer({ minimum: 0 }), type.Integer()],
  null: (type) => type.Null(),
  number: (type) => [type.Number({ maximum: 1 }), type.Number()],
  object: (type) => type.Object({ a: type.String(), b: type.Null() }, { additionalProperties: false }),
  "empty object": (type) => type.Object({}),
  "object with optional parts": (type) => type.Object({ a: type.Optional(type.String()), b: type.Number() }),
  "object of optional parts": (type) => type.Object({ a: type.Optional(type.Object({ b: type.Null() })) }),
  record: (type) => type.Record(type.String(), type.Integer({ minimum: 0 }), { description: "by name" }),
  "record of a pattern": (type) => type.Record(type.String({ pattern: "^a$" }), type.Unknown()),
  string: (type) => [type.String({ format: "date-time" }), type.String()],
  union: (type) => [type.Union([type.String(), type.Null()], { description: "or" }), type.Union([type.Null()])],
  unknown: (type) => [type.Unknown({ description: "any" }), type.Unknown()],
};

test.each(Object.entries(made))("%s is what typebox makes", (_name, make) => {
  expect(JSON.stringify(make(Type))).toBe(JSON.stringify(make(TypeBox)));
});

test("a schema that is optional in one object is required in another", () => {
  const part = Type.String();
  expect(Type.Object({ a: Type.Optional(part) })).not.toHaveProperty("required");
  expect(Type.Object({ a: part }).required).toEqual(["a"]);
});

test("every schema is valid, since the listener does not check that", () => {
  const compile = AjvCompiler()({}, { customOptions: {} });
  const all = Object.entries(schemas).filter(([, schema]) => !Array.isArray(schema));
  expect(all.length).toBeGreaterThan(25);
  for (const [name, schema] of all) expect(() => compile({ schema }), name).not.toThrow();
});

test("an answer can say in words what fits each pattern", () => {
  const patterns = new Set([...JSON.stringify(schemas).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(([, p]) => p));
  expect(patterns.size).toBeGreaterThan(5);
  expect([...patterns].filter((pattern) => !expectedByPattern.has(JSON.parse(pattern as string)))).toEqual([]);
});
