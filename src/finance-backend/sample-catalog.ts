// What does not vary in the sample data: the user, the accounts, the tags, the categories and their groups, the crypto
// accounts. Ids are fixed, so that an example in the documentation keeps working. All names are invented.

export const user = {
  id: 18_328,
  name: "Robin Example",
  email: "robin@example.org",
  account_id: 18_221,
  budget_name: "Household",
  primary_currency: "usd",
  api_key_label: "Reference backend",
};

export const accounts = {
  checking: { id: 120_001, kind: "plaid", name: "Everyday Checking" },
  card: { id: 120_002, kind: "plaid", name: "Rewards Card" },
  savings: { id: 120_003, kind: "plaid", name: "Rainy Day Savings" },
  brokerage: { id: 219_001, kind: "manual", name: "Index Fund Account" },
  wallet: { id: 219_002, kind: "manual", name: "Cash Wallet" },
} as const;

export type AccountName = keyof typeof accounts;

type Tag = Readonly<{ id: number; name: string }>;

export const tags: readonly [Tag, ...Tag[]] = [
  { id: 94_001, name: "tax-deductible" },
  { id: 94_002, name: "reimbursable" },
  { id: 94_003, name: "vacation" },
  { id: 94_004, name: "shared" },
  { id: 94_005, name: "work" },
  { id: 94_006, name: "gift" },
  { id: 94_007, name: "one-off" },
  { id: 94_008, name: "subscription" },
];

export const vacationTagId = 94_003;

interface Category {
  readonly id: number;
  readonly name: string;
  readonly groupId: number | null;
  readonly description?: string;
  readonly income?: true;
  readonly outsideTotals?: true;
  readonly archived?: true;
  readonly order: number | null;
}

/** A group and its children, whose ids follow that of the group; children inherit what the group says about income. */
const groups: readonly (readonly [id: number, name: string, children: readonly string[]])[] = [
  [83_000, "Income", ["Salary", "Side Work", "Interest & Dividends"]],
  [83_100, "Home", ["Rent", "Utilities", "Internet & Phone", "Furnishings"]],
  [83_200, "Food", ["Groceries", "Restaurants", "Coffee & Snacks"]],
  [83_300, "Transport", ["Fuel", "Public Transit", "Car Care"]],
  [83_400, "Health", ["Pharmacy", "Doctor & Dentist", "Fitness"]],
  [83_500, "Leisure", ["Streaming", "Books & Games", "Going Out"]],
  [83_600, "Shopping", ["Clothing", "Electronics", "Household Goods"]],
];

const ungrouped: readonly Category[] = [
  { id: 83_900, name: "Transfers", groupId: null, outsideTotals: true, order: 7 },
  { id: 83_901, name: "Insurance", groupId: null, order: 8 },
  { id: 83_902, name: "Travel", groupId: null, description: "Trips of more than a day", order: 9 },
  { id: 83_903, name: "Gifts & Donations", groupId: null, order: null },
  { id: 83_904, name: "Bank Fees", groupId: null, order: null },
  { id: 83_905, name: "Pottery Class", groupId: null, archived: true, order: null },
];

export const categories: readonly (Category & { readonly isGroup: boolean })[] = [
  ...groups.flatMap(([id, name, children], order) => {
    const income = name === "Income" ? ({ income: true } as const) : {};
    return [
      { id, name, groupId: null, isGroup: true, order, ...income },
      ...children.map((child, order) => ({
        ...{ id: id + 1 + order, name: child, groupId: id, isGroup: false, order, ...income },
      })),
    ];
  }),
  ...ungrouped.map((category) => ({ ...category, isGroup: false })),
];

export const categoriesCreatedAt = "2023-12-28T09:30:00.000Z";
export const categoryArchivedAt = "2024-09-15T17:05:00.000Z";

export const cryptoSynced = [
  {
    id: 33_004,
    provider: "coinbase",
    displayName: "ExchangeRecord Account",
    createdAt: "2024-03-02T11:02:09.000Z",
    updatedAt: "2025-12-31T14:25:01.000Z",
    balances: [
      { name: "ETH", balance: "12.004500000000000000", symbol: "eth", coingeckoId: "ethereum", toBase: 28_998.44 },
      { name: "BTC", balance: "0.100020003000400050", symbol: "btc", coingeckoId: "bitcoin", toBase: 6231.28 },
    ],
  },
  {
    id: 33_005,
    provider: "ethereum",
    displayName: null,
    createdAt: "2024-08-10T10:00:00.000Z",
    updatedAt: "2025-12-30T07:22:30.000Z",
    balances: [
      { name: "ETH", balance: "0.750000000000000000", symbol: "eth", coingeckoId: "ethereum", toBase: 1811.7 },
    ],
  },
] as const;
