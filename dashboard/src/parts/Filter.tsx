// The filter of the list: tabs of states, and words that become tokens. All of it is in the address.

import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Totals } from '../api/schema';
import { FIELDS, STATES, typed, type Filter } from '../filter';
import { figure, short } from '../format';
import { go, to, toJob } from '../router';
import { Icon } from './Icon';

export const toJobs = (filter: Filter, after?: string | null): string => to(['jobs'], { ...filter, after });

export function StateTabs({ filter, totals }: { filter: Filter; totals: Totals | undefined }) {
  const { state: _, ...rest } = filter;
  const tabs = useRef<HTMLElement>(null);
  // On small screens the tabs scroll sideways, and the current one has to be seen.
  useEffect(() => {
    const box = tabs.current, current = box?.querySelector<HTMLElement>('[aria-current]');
    if (box && current) box.scrollLeft = current.offsetLeft - box.clientWidth / 2 + current.clientWidth / 2;
  }, [filter.state]);
  return (
    <nav class="tabs" aria-label="State" ref={tabs}>
      <a href={toJobs(rest)} aria-current={filter.state ? undefined : 'page'}>All</a>
      {STATES.map(state => {
        const n = totals?.[state as keyof Totals] as number | undefined;
        return (
          <a key={state} href={toJobs({ ...rest, state })} aria-current={filter.state === state ? 'page' : undefined}>
            {state}{n !== undefined && <span class="n">{figure(n, totals?.estimates.includes(state) ?? false, short)}</span>}
          </a>
        );
      })}
    </nav>
  );
}

export function FilterBar({ filter, suggestions }: { filter: Filter; suggestions: readonly string[] }) {
  const [text, setText] = useState('');
  const [wrong, setWrong] = useState('');
  const list = useId(), error = useId();
  const tokens = FIELDS.filter(field => filter[field]);
  const without = (field: (typeof FIELDS)[number]): Filter => {
    const rest = { ...filter };
    delete rest[field];
    return rest;
  };
  const apply = (): void => {
    const result = typed(text, filter);
    if ('wrong' in result) return setWrong(result.wrong);
    setText('');
    setWrong('');
    go('job' in result ? toJob(result.job) : toJobs(result.filter));
  };
  const key = (event: KeyboardEvent): void => {
    const input = event.currentTarget as HTMLInputElement;
    const last = tokens.at(-1);
    if (event.key === 'Escape') input.blur();
    else if (event.key === 'Backspace' && !text && last) go(toJobs(without(last)));
    else return;
    event.preventDefault();
  };
  return (
    <div class="filter">
      <form class="query" role="search" onSubmit={event => { event.preventDefault(); apply(); }}>
        <Icon name="search" />
        {tokens.map(field => (
          <span class="token" key={field}><span>{field}</span><b>{filter[field]}</b><button type="button" aria-label={`Remove ${field} ${filter[field]}`} onClick={() => go(toJobs(without(field)))}><Icon name="x" small /></button></span>
        ))}
        <input type="text" list={list} aria-label="Filter: field:value, or the number of a job" aria-invalid={!!wrong} aria-describedby={wrong ? error : undefined} spellcheck={false} autocomplete="off"
          placeholder={tokens.length ? 'and…' : 'queue:  kind:  tag:  error:  args:  or the number of a job'} value={text} onInput={event => { setText(event.currentTarget.value); setWrong(''); }} onKeyDown={key} />
        <datalist id={list}>{suggestions.map(value => <option key={value} value={value} />)}</datalist>
      </form>
      {wrong && <p class="bad small wrong" id={error} role="alert">{wrong}</p>}
    </div>
  );
}
