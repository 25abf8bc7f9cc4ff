import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

interface PanelProps {
  title: string;
  /** Said beside the title. */
  note?: ComponentChildren;
  legend?: ComponentChildren;
  tools?: ComponentChildren;
  ruled?: boolean;
  fill?: boolean;
  children: ComponentChildren;
}

export function Panel({ title, note, legend, tools, ruled, fill, children }: PanelProps) {
  const id = useId();
  return (
    <section class={fill ? 'panel fill' : 'panel'} aria-labelledby={id}>
      <header class={ruled ? 'ruled' : undefined}>
        <h2 id={id}>{title}</h2>
        {note !== undefined && <span class="faint small">{note}</span>}
        {legend && <ul class="legend">{legend}</ul>}
        {tools && <div class="tools">{tools}</div>}
      </header>
      {children}
    </section>
  );
}

/** One of a few choices. */
export function Seg<T extends string>({ label, of, chosen, choose }: { label: string; of: readonly T[]; chosen: T; choose(value: T): void }) {
  return (
    <div class="seg" role="group" aria-label={label}>
      {of.map(value => <button key={value} type="button" aria-pressed={value === chosen} onClick={() => choose(value)}>{value}</button>)}
    </div>
  );
}
