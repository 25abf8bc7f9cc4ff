// A chart with axes. It is read with the pointer, and point by point with the arrow keys.

import { useId, useRef, useState } from 'preact/hooks';
import { area, bars, ceiling, HEIGHT, largest, line, linear, newest, WIDTH, type Kind, type Scale, type Series } from '../charts';
import type { Mark } from '../api/schema';
import { now } from '../clock';
import { clock, moment, rate, short } from '../format';
import { say } from './Say';

function Plot({ series, y }: { series: readonly Series[]; y: Scale }) {
  return (
    <svg class="chart-data" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {series.map(one => one.kind === 'bars'
        ? <path key={one.name} class={`ar f-${one.tone}`} d={bars(one.values, y)} />
        : <g key={one.name}>
            {one.kind === 'area' && <path class={`ar f-${one.tone}`} d={area(one.values, y)} />}
            <path class={`ln ${one.kind === 'area' ? '' : one.kind} c-${one.tone}`} d={line(one.values, y)} />
          </g>)}
    </svg>
  );
}

/** A small one without axes, beside its figure. */
export function Spark({ values, tone, kind = 'area' }: { values: readonly (number | null)[]; tone: string; kind?: Kind }) {
  const series = [{ name: 'spark', values, tone, kind }];
  const y = linear(Math.max(largest(series) * 1.08, 1e-9));
  return <span class="spark"><Plot series={series} y={y} /></span>;
}

/** A line of a legend. */
export function Key({ series, unit = '', value = true }: { series: Series; unit?: string; value?: boolean }) {
  const last = newest(series.values);
  return (
    <li>
      <svg class="key" viewBox="0 0 14 8" aria-hidden="true"><path class={`ln ${series.kind === 'area' || series.kind === 'bars' ? '' : series.kind} c-${series.tone}`} d="M0 4H14" /></svg>
      {series.name} {value && last !== null && <b>{rate(last)}{unit}</b>}
    </li>
  );
}

interface ChartProps {
  label: string;
  series: readonly Series[];
  /** When each value was, in milliseconds. */
  times: readonly number[];
  unit?: string;
  size?: 'short' | 'tiny';
  /** The least that the axis goes to. */
  least?: number;
  /** What happened meanwhile, as deploys. */
  marks?: readonly Mark[];
}

/** A figure of the axis, in the unit of its top. */
function axis(value: number, top: number): string {
  if (top >= 1_000 && top < 1_000_000) return value ? `${value / 1_000}k` : '0';
  return value % 1 ? String(Number(value.toPrecision(3))) : short(value);
}

const MARKS = 5;
/** A time with seconds is wide, and of a few seconds only the ends say something. */
const MARKS_OF_LITTLE = 2;
const LITTLE_MS = 600_000;

/** Where the axis of time is labelled: about five places. */
function timeMarks(times: readonly number[]): { x: number; text: string }[] {
  const [first, last] = [times[0], times.at(-1)];
  if (first === undefined || last === undefined || last <= first) return [];
  const long = last - first > 40 * 3_600_000;
  const text = (at: number): string => (long ? new Date(at).toLocaleDateString('en-GB', { day: 'numeric', month: 'short' }) : clock(at, last - first < LITTLE_MS ? 'seconds' : 'minutes'));
  const n = last - first < LITTLE_MS ? MARKS_OF_LITTLE : MARKS;
  return Array.from({ length: n }, (_, i) => ({ x: (i / (n - 1)) * 100, text: text(first + ((last - first) * i) / (n - 1)) }));
}

const when = (at: number | string): string => moment(at, now.peek());

/** Lines where something happened, with what it was. */
function Marks({ marks, times }: { marks: readonly Mark[]; times: readonly number[] }) {
  const first = times[0] ?? 0, all = (times.at(-1) ?? 0) - first;
  const placed = marks.map(mark => ({ ...mark, x: ((Date.parse(mark.at) - first) / all) * 100 })).filter(({ x }) => x >= 0 && x <= 100);
  return (
    <>
      <svg aria-hidden="true">{placed.map(({ at, label, x }) => (
        <g key={at} class="mark"><line x1={`${x}%`} x2={`${x}%`} y1="0" y2="100%" /><text x={`${x}%`} dx={x > 80 ? -4 : 4} y="10" text-anchor={x > 80 ? 'end' : 'start'}>{label.slice(0, 24)}</text></g>
      ))}</svg>
      {placed.length > 0 && <span class="vh">{placed.map(({ at, label }) => `${when(at)}: ${label}`).join(', ')}</span>}
    </>
  );
}

export function Chart({ label, series, times, unit = '', size, least = 1, marks = [] }: ChartProps) {
  const [at, setAt] = useState<number | null>(null);
  const help = useId();
  const box = useRef<HTMLDivElement>(null);
  const top = ceiling(largest(series) * 1.04, least);
  const y = linear(top);
  const steps = size === 'tiny' ? [0, 1] : [0, 0.25, 0.5, 0.75, 1];
  const last = times.length - 1;

  const describe = (i: number): string => `${when(times[i] ?? 0)}: ${series.map(one => `${one.name} ${value(one, i, unit)}`).join(', ')}`;
  const point = (event: PointerEvent): void => {
    const area = box.current?.getBoundingClientRect();
    if (area && last >= 0) setAt(Math.round(Math.min(1, Math.max(0, (event.clientX - area.left) / area.width)) * last));
  };
  const step = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (!by || last < 0) return;
    event.preventDefault();
    const next = Math.min(last, Math.max(0, (at ?? last + 1) + by));
    setAt(next);
    say(describe(next));
  };
  return (
    <figure class={size ? `chart ${size}` : 'chart'}>
      <div class="chart-y"><svg aria-hidden="true">
        {steps.map(step => <text key={step} x="100%" dx="-8" y={`${100 - step * 100}%`} dy="3.5" text-anchor="end">{axis(top * step, top)}</text>)}
      </svg></div>
      <div class="chart-plot" ref={box} tabIndex={0} role="img" aria-label={`${label}. Now ${series.map(one => `${one.name} ${value(one, null, unit)}`).join(', ')}.`} aria-describedby={help}
        onPointerMove={point} onPointerLeave={() => setAt(null)} onBlur={() => setAt(null)} onKeyDown={step}>
        <svg aria-hidden="true">{steps.map((step, i) => <line key={step} class={i ? 'gridline' : 'gridline zero'} x1="0" x2="100%" y1={`${100 - step * 100}%`} y2={`${100 - step * 100}%`} />)}</svg>
        <Plot series={series} y={y} />
        <Marks marks={marks} times={times} />
        {at !== null && at <= last && <Reading series={series} time={times[at] ?? 0} at={at} of={last} unit={unit} />}
        <span class="vh" id={help}>Arrow keys read single points.</span>
      </div>
      {size !== 'tiny' && <div class="chart-x"><svg aria-hidden="true">
        {timeMarks(times).map(({ x, text }) => <text key={x} x={`${x}%`} y="13" text-anchor={x < 1 ? 'start' : x > 99 ? 'end' : 'middle'}>{text}</text>)}
      </svg></div>}
    </figure>
  );
}

function value(series: Series, at: number | null, unit: string): string {
  const found = at === null ? newest(series.values) : series.values[at];
  return found === null || found === undefined ? 'not counted' : `${rate(found)}${unit}`;
}

function Reading({ series, time, at, of, unit }: { series: readonly Series[]; time: number; at: number; of: number; unit: string }) {
  const x = of ? (at / of) * 100 : 0;
  const side = x > 60 ? { right: `calc(${100 - x}% + 10px)` } : { left: `calc(${x}% + 10px)` };
  return (
    <>
      <div class="chart-cross" style={{ left: `${x}%` }} />
      <div class="chart-tip" style={side}><b>{when(time)}</b>{series.map(one => <span key={one.name}>{one.name}<em>{value(one, at, unit)}</em></span>)}</div>
    </>
  );
}
