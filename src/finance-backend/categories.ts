// Categories, all in one response. Nested: a group contains its children. Flattened: the children are also at the top level,
// each after its group. Categories with an order come first, then the others by name.
import type { DatabaseSync, StatementSync } from "node:sqlite";

export interface Category {
  readonly id: number;
  readonly name: string;
  readonly description: string | null;
  readonly is_income: boolean;
  readonly exclude_from_budget: boolean;
  readonly exclude_from_totals: boolean;
  readonly updated_at: string;
  readonly created_at: string;
  readonly group_id: number | null;
  readonly is_group: boolean;
  readonly archived: boolean;
  readonly archived_at: string | null;
  readonly order: number | null;
  readonly collapsed: boolean;
  readonly children?: readonly Category[];
}

export class CategoryTree {
  readonly #all: StatementSync;

  constructor(database: DatabaseSync) {
    this.#all = database.prepare(
      `SELECT id, name, description, is_income, exclude_from_budget, exclude_from_totals, updated_at, created_at, group_id,
         is_group, archived, archived_at, "order", collapsed
       FROM categories ORDER BY "order" IS NULL, "order", name, id`,
    );
  }

  nested(): Category[] {
    const all = this.#read();
    const top = all.filter((category) => category.group_id === null);
    return top.map((category) => withChildren(category, all));
  }

  flattened(): Category[] {
    return this.nested().flatMap((category) => [category, ...(category.children ?? [])]);
  }

  /** `groups`: only the groups; else only the categories that are no group and belong to none. */
  atTop(groups: boolean): Category[] {
    return this.nested().filter((category) => category.is_group === groups);
  }

  find(id: number): Category | null {
    return this.flattened().find((category) => category.id === id) ?? null;
  }

  #read(): Category[] {
    return (this.#all.all() as unknown as CategoryRow[]).map((row) => ({
      ...row,
      is_income: row.is_income === 1,
      exclude_from_budget: row.exclude_from_budget === 1,
      exclude_from_totals: row.exclude_from_totals === 1,
      is_group: row.is_group === 1,
      archived: row.archived === 1,
      collapsed: row.collapsed === 1,
    }));
  }
}

function withChildren(category: Category, all: readonly Category[]): Category {
  if (!category.is_group) return category;
  return { ...category, children: all.filter((child) => child.group_id === category.id) };
}

type CategoryRow = {
  readonly [Key in keyof Required<Omit<Category, "children">>]: Category[Key] extends boolean ? 0 | 1 : Category[Key];
};
