// How the household spends: what falls due on a day of the month, and what happens on some days with some chance.
// Amounts are whole cents; positive is money spent, negative is money received. All payees are invented.
import type { AccountName } from "./sample-catalog.ts";

export interface Spending {
  readonly payees: readonly [string, ...string[]];
  readonly categoryId: number | null;
  /** `null` is a cash transaction that belongs to no account. */
  readonly account: AccountName | null;
  readonly cents: readonly [low: number, high: number];
}

export interface MonthlySpending extends Spending {
  readonly dayOfMonth: number;
  readonly tagId?: number;
}

export interface Habit extends Spending {
  /** The chance in a thousand, Sunday first. */
  readonly perMille: readonly [number, number, number, number, number, number, number];
}

const due = (
  dayOfMonth: number,
  payee: string,
  categoryId: number | null,
  account: AccountName | null,
  cents: readonly [number, number],
  tagId?: number,
): MonthlySpending => ({
  dayOfMonth,
  payees: [payee],
  categoryId,
  account,
  cents,
  ...(tagId === undefined ? {} : { tagId }),
});

export const monthly: readonly MonthlySpending[] = [
  due(1, "Lindenhof Property Management", 83_101, "checking", [185_000, 185_000]),
  due(2, "Northgate Mutual Insurance", 83_901, "checking", [11_840, 11_840]),
  due(3, "Transfer to Savings", 83_900, "checking", [60_000, 60_000]),
  due(3, "Transfer from Checking", 83_900, "savings", [-60_000, -60_000]),
  due(4, "Lumen Film Club", 83_501, "card", [1299, 1299], 94_008),
  due(5, "Riverside Power & Light", 83_102, "checking", [5400, 14_900]),
  due(6, "Copperline Broadband", 83_103, "checking", [6499, 6499], 94_008),
  due(7, "Harbor Mobile", 83_103, "card", [3500, 3500], 94_008),
  due(8, "Ironbridge Gym", 83_403, "card", [4200, 4200], 94_008),
  due(10, "Index Fund Purchase", 83_900, "brokerage", [-40_000, -40_000]),
  due(10, "Transfer to Brokerage", 83_900, "checking", [40_000, 40_000]),
  due(12, "City Water Works", 83_102, "checking", [3100, 5800]),
  due(15, "Fairweather Instruments Payroll", 83_001, "checking", [-284_615, -284_615]),
  due(16, "Waveform Radio", 83_501, "card", [999, 999], 94_008),
  due(18, "Open Shelter Fund", 83_903, "checking", [2500, 2500], 94_001),
  due(20, "Cloudpocket Storage", 83_501, "card", [299, 299], 94_008),
  due(25, "Card Payment", 83_900, "checking", [90_000, 210_000]),
  due(27, "Account Maintenance Fee", 83_904, "checking", [450, 450]),
  due(28, "Fairweather Instruments Payroll", 83_001, "checking", [-284_615, -284_615]),
  due(28, "Savings Interest", 83_003, "savings", [-4200, -2600]),
  due(28, "Quarter Square Dividend", 83_003, "brokerage", [-3900, -1200]),
];

type HabitRow = readonly [
  payees: string,
  categoryId: Habit["categoryId"],
  account: Habit["account"],
  cents: Habit["cents"],
  perMille: Habit["perMille"],
];

// biome-ignore format: a habit in each row
const habitRows: readonly HabitRow[] = [
  ["Greenfield Market, Corner Basket, Hilltop Grocers, Saturday Farm Stand", 83_201, "card", [1180, 14_600], [380, 420, 180, 420, 180, 420, 780]],
  ["Blue Kettle Coffee, Platform Nine Espresso, Daily Crumb Bakery, Kiosk at the Park", 83_203, "card", [290, 1240], [420, 720, 700, 720, 700, 760, 520]],
  ["Noodle Lane, Casa Olmo, The Copper Spoon, Saffron House, Pier Street Tacos", 83_202, "card", [1450, 8900], [260, 180, 200, 240, 300, 520, 560]],
  ["Metro Transit Fare, Regional Rail", 83_302, "card", [275, 960], [90, 680, 700, 700, 690, 640, 180]],
  ["Metro Transit Fare", 83_302, "card", [275, 450], [60, 610, 640, 640, 630, 540, 120]],
  ["Staff Canteen, Soup & Sandwich, Bento Corner", 83_202, "card", [690, 1680], [0, 520, 540, 560, 540, 380, 0]],
  ["Junction Fuel, Route 9 Filling Station", 83_301, "card", [2600, 6400], [220, 90, 40, 60, 80, 160, 180]],
  ["Orchard Pharmacy, Wellgate Drugstore", 83_401, "card", [480, 4700], [40, 70, 70, 60, 70, 70, 90]],
  ["Dr. A. Marlow, Bright Smile Dental", 83_402, "checking", [3000, 24_000], [0, 22, 22, 22, 22, 18, 0]],
  ["Paper Lantern Books, Second Chapter, Pixel Attic Games", 83_502, "card", [799, 6900], [90, 40, 40, 40, 50, 70, 120]],
  ["Orpheum Cinema, Tin Roof Music Hall, Kegel Lanes", 83_503, "card", [1200, 7800], [80, 20, 20, 30, 60, 240, 280]],
  ["Thread & Seam, Harbor Outfitters", 83_601, "card", [1900, 18_900], [40, 30, 30, 30, 30, 40, 60]],
  ["Volt & Wire, Circuit Barn", 83_602, "card", [1500, 64_900], [14, 8, 8, 8, 8, 10, 20]],
  ["Home & Hearth Supply, The Broom Closet", 83_603, "card", [650, 8200], [40, 30, 30, 30, 30, 40, 60]],
  ["Oak & Linen", 83_104, "card", [4900, 72_000], [10, 4, 4, 4, 4, 6, 16]],
  ["Turner's Auto Service, Sparkle Car Wash", 83_303, "checking", [1200, 38_000], [4, 14, 14, 14, 14, 18, 24]],
  ["Weekend Workshop Invoice, Tutoring", 83_002, "checking", [-42_000, -6500], [6, 16, 16, 16, 16, 22, 8]],
  ["Flower Cart, Toy Harbor", 83_903, "card", [1500, 9000], [30, 12, 12, 12, 12, 24, 40]],
  ["Street Market, Taxi, Flea Market, Tip Jar", null, "wallet", [200, 4000], [130, 50, 50, 50, 60, 110, 180]],
  ["Cash Withdrawal, Found in a Coat", null, null, [500, 6000], [70, 30, 30, 30, 30, 60, 70]],
];

export const habits: readonly Habit[] = habitRows.map(([payees, categoryId, account, cents, perMille]) => ({
  ...{ payees: payees.split(", ") as [string, ...string[]], categoryId, account, cents, perMille },
}));

/** Only until the category was archived. */
export const potteryClass: Habit = {
  payees: ["Clay & Wheel Studio"],
  categoryId: 83_905,
  account: "card",
  cents: [2800, 3600],
  perMille: [0, 0, 900, 0, 0, 0, 0],
};

/** A trip abroad, in euros. */
export const abroad: Habit = {
  payees: ["Hotel Miramar", "Tram Lisboa", "Mercado do Bairro", "Museu da Luz", "Pastelaria Aurora"],
  categoryId: 83_902,
  account: "card",
  cents: [350, 21_000],
  perMille: [950, 950, 950, 950, 950, 950, 950],
};
