// The transaction listing: filters, then order, then limit and offset. The order is total (newest date first, within a day the
// higher id first), so an offset names the same record on every request, and pages neither repeat nor skip a record. By
// default nothing is filtered out, pending records included.
import type { DatabaseSync } from "node:sqlite";
import type { TransactionQuery } from "./transaction-query.ts";

export interface TransactionRow {
  readonly id: number;
  readonly date: string;
  readonly amount: string;
  readonly currency: string;
  readonly to_base: number;
  readonly payee: string;
  readonly original_name: string | null;
  readonly category_id: number | null;
  readonly notes: string | null;
  readonly status: "reviewed" | "unreviewed" | "delete_pending";
  readonly is_pending: 0 | 1;
  readonly manual_account_id: number | null;
  readonly plaid_account_id: number | null;
  readonly source: string;
  readonly external_id: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  /** A JSON array of integers, ascending. */
  readonly tag_ids: string;
}

interface TransactionPage {
  readonly rows: readonly TransactionRow[];
  readonly hasMore: boolean;
}

/** Returns the function that reads a page. */
export function transactionListing(database: DatabaseSync): (query: TransactionQuery) => TransactionPage {
  const statement = database.prepare(pageSql);
  return (query) => {
    // The schema is STRICT and the columns are listed, so a row has the declared shape.
    const rows = statement.all({
      start_date: query.startDate ?? "0001-01-01",
      end_date: query.endDate ?? "9999-12-31",
      manual_account_id: query.manualAccountId,
      plaid_account_id: query.plaidAccountId,
      category_id: query.categoryId,
      tag_id: query.tagId,
      status: query.status,
      is_pending: query.isPending === null ? null : Number(query.isPending),
      created_since: query.createdSince ?? "",
      updated_since: query.updatedSince ?? "",
      limit: query.limit,
      offset: query.offset,
    }) as unknown as TransactionRow[];
    // The query asks for one record more than the page: it exists only if there are more.
    return { rows: rows.slice(0, query.limit), hasMore: rows.length > query.limit };
  };
}

/** A record in the shape of /v2. What the sample data lacks (splits, groups, recurring items) is null in the row, or false. */
export function v2Transaction(row: TransactionRow): Record<string, unknown> {
  const lacking = { is_split_parent: false, is_group_parent: false };
  return { ...row, ...lacking, is_pending: row.is_pending === 1, tag_ids: JSON.parse(row.tag_ids) };
}

/** One statement for every combination of filters: an unused filter is bound to NULL. The columns are in the order of /v2. */
const pageSql = `
SELECT id, date, amount, currency, to_base, NULL AS recurring_id, payee, original_name, category_id, notes, status, is_pending,
  created_at, updated_at, 0 AS is_split_parent, NULL AS split_parent_id, 0 AS is_group_parent, NULL AS group_parent_id,
  manual_account_id, plaid_account_id,
  (SELECT json_group_array(tag_id ORDER BY tag_id) FROM transaction_tags WHERE transaction_id = listed.id) AS tag_ids,
  source, external_id
FROM transactions AS listed
WHERE date BETWEEN :start_date AND :end_date
  AND (:manual_account_id IS NULL OR coalesce(manual_account_id, 0) = :manual_account_id)
  AND (:plaid_account_id IS NULL OR coalesce(plaid_account_id, 0) = :plaid_account_id)
  AND (:category_id IS NULL OR coalesce(category_id, 0) = :category_id
    OR category_id IN (SELECT id FROM categories WHERE group_id = :category_id))
  AND (:tag_id IS NULL
    OR EXISTS (SELECT 1 FROM transaction_tags WHERE transaction_id = listed.id AND tag_id = :tag_id))
  AND (:status IS NULL OR status = :status)
  AND (:is_pending IS NULL OR is_pending = :is_pending)
  AND created_at >= :created_since
  AND updated_at >= :updated_since
ORDER BY date DESC, id DESC
LIMIT :limit + 1 OFFSET :offset`;
