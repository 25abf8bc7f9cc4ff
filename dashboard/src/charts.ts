// Charts as numbers and SVG paths. The plot has its own units and is stretched to its box; strokes are not. Colours come from
// classes and places from attributes, so a strict content security policy is kept and a theme switch redraws nothing.

export const WIDTH = 600;
export const HEIGHT = 100;

export type Values = readonly (number | null)[];
export type Kind = 'area' | 'line' | 'dash' | 'bars';

export interface Series {
  name: string;
  values: Values;
  kind: Kind;
  tone: string;
}

export type Scale = (value: number) => number;

const round = (n: number): number => Math.round(n * 100) / 100;

export const linear = (max: number): Scale => value => round(HEIGHT - (value / max) * HEIGHT);

/** The runs of a series without its gaps, as points. */
function runs(values: Values, y: Scale): [number, number][][] {
  const found: [number, number][][] = [];
  let open = false;
  values.forEach((value, i) => {
    if (value === null) {
      open = false;
      return;
    }
    const point: [number, number] = [round((i / Math.max(1, values.length - 1)) * WIDTH), y(value)];
    if (open) found.at(-1)?.push(point);
    else found.push([point]);
    open = true;
  });
  return found;
}

const trace = (points: [number, number][]): string => points.map(([x, y], i) => `${i ? 'L' : 'M'}${x} ${y}`).join('');

/** The outline of a series; a value alone between gaps is a short stroke. */
export const line = (values: Values, y: Scale): string =>
  runs(values, y).map(run => (run.length > 1 ? trace(run) : `M${run[0]?.[0]} ${run[0]?.[1]}h1`)).join('');

export const area = (values: Values, y: Scale): string =>
  runs(values, y).filter(run => run.length > 1).map(run => `${trace(run)}L${run.at(-1)?.[0]} ${HEIGHT}L${run[0]?.[0]} ${HEIGHT}Z`).join('');

/** One bar per value, from the bottom; the smallest can still be seen. */
export function bars(values: Values, y: Scale): string {
  const step = WIDTH / values.length, gap = step * 0.28;
  return values
    .map((v, i) => (v ? `M${round(i * step + gap / 2)} ${HEIGHT}V${Math.min(y(v), HEIGHT - 3)}H${round((i + 1) * step - gap / 2)}V${HEIGHT}Z` : ''))
    .join('');
}

const known = (values: Values): number[] => values.filter(value => value !== null);

export const largest = (series: readonly Series[]): number => Math.max(0, ...series.flatMap(one => known(one.values)));

/** A round number that is at least this, and its quarters have few digits: 1, 2, 4, 6 or 8 with zeros. */
export function ceiling(value: number, least = 1): number {
  const target = Math.max(value, least);
  const power = 10 ** Math.floor(Math.log10(target));
  return ([1, 2, 4, 6, 8, 10].find(step => step * power >= target * 0.999_999) ?? 10) * power;
}

/** The newest value that is there. */
export const newest = (values: Values): number | null => known(values).at(-1) ?? null;
