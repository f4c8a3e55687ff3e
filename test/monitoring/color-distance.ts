// The perceived distance of two colours, and the hue of one, for tests of the dashboard's colours.

/** Distance in OKLab (Björn Ottosson, 2020) of two colours like `#ff9830`. People notice about 0.02 side by side. */
export function colorDistance(a: string, b: string): number {
  const [one, other] = [okLab(a), okLab(b)];
  return Math.hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
}

/** In degrees: 0 is red, 120 green, 240 blue. */
export function hueOf(color: string): number {
  const [r, g, b] = channels(color);
  const [max, spread] = [Math.max(r, g, b), Math.max(r, g, b) - Math.min(r, g, b)];
  if (spread === 0) throw new Error(`${color} is grey`);
  const sixth = max === r ? (g - b) / spread : max === g ? 2 + (b - r) / spread : 4 + (r - g) / spread;
  return (sixth * 60 + 360) % 360;
}

type Triple = [number, number, number];

/** Red, green and blue, from 0 to 1. */
function channels(color: string): Triple {
  const [, r = "", g = "", b = ""] = /^#(..)(..)(..)$/.exec(color) ?? [];
  if (r === "") throw new Error(`not a colour: ${color}`);
  return [r, g, b].map((channel) => Number.parseInt(channel, 16) / 255) as Triple;
}

function okLab(color: string): Triple {
  const linear = channels(color).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)) as Triple;
  const cones = multiplied(toCones, linear).map(Math.cbrt) as Triple;
  return multiplied(toLab, cones);
}

function multiplied(matrix: readonly Triple[], [x, y, z]: Triple): Triple {
  return matrix.map(([a, b, c]) => a * x + b * y + c * z) as Triple;
}

const toCones: readonly Triple[] = [
  [0.4122214708, 0.5363325363, 0.0514459929],
  [0.2119034982, 0.6806995451, 0.1073969566],
  [0.0883024619, 0.2817188376, 0.6299787005],
];
const toLab: readonly Triple[] = [
  [0.2104542553, 0.793617785, -0.0040720468],
  [1.9779984951, -2.428592205, 0.4505937099],
  [0.0259040371, 0.7827717662, -0.808675766],
];
