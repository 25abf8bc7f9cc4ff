import type { ComponentChildren } from 'preact';

export function Stats({ label = 'Now', children }: { label?: string; children: ComponentChildren }) {
  return <section class="panel" aria-label={label}><dl class="stats">{children}</dl></section>;
}

interface StatProps {
  label: string;
  value: ComponentChildren;
  unit?: ComponentChildren;
  hint?: ComponentChildren;
  /** Where its jobs are. */
  href?: string | undefined;
  spark?: ComponentChildren;
}

/** One figure of the strip. */
export function Stat({ label, value, unit, hint, href, spark }: StatProps) {
  return (
    <div class="stat">
      <dt>{label}</dt>
      <dd>{href ? <a href={href}>{value}</a> : <span>{value}</span>}{unit && <small>{unit}</small>}</dd>
      <dd class="hint">{hint ?? ' '}</dd>
      {spark && <dd class="aside">{spark}</dd>}
    </div>
  );
}
