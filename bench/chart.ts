// A bar chart as SVG text: CPU time for each proxied request, shorter is better.

const width = 720;
const barHeight = 26;
const labelWidth = 170;

export function chart(bars: readonly { readonly label: string; readonly value: number }[]): string {
  const known = bars.filter(({ value }) => Number.isFinite(value)).toSorted((a, b) => a.value - b.value);
  const largest = Math.max(...known.map(({ value }) => value), 1);
  const height = 50 + known.length * (barHeight + 8);
  const rows = known.map(({ label, value }, i) => {
    const y = 40 + i * (barHeight + 8);
    const length = ((width - labelWidth - 80) * value) / largest;
    const colour = label === "Headgate" ? "#2f6fde" : "#9aa5b1";
    return `<text x="${labelWidth - 8}" y="${y + 18}" text-anchor="end">${label}</text>
<rect x="${labelWidth}" y="${y}" width="${length.toFixed(1)}" height="${barHeight}" fill="${colour}"/>
<text x="${(labelWidth + length + 6).toFixed(1)}" y="${y + 18}">${value.toFixed(1)} µs</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="14">
<title>CPU time for each proxied GET, 200 bytes, 64 connections</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="8" y="22">CPU time for each proxied GET, 200 bytes, 64 connections; shorter is better</text>
${rows.join("\n")}
</svg>
`;
}
