import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { act, busy } from '../act';
import { path, query } from '../api/client';
import { useResource } from '../api/resource';
import type { JobState, Page, ScheduleRecord } from '../api/schema';
import { STATES } from '../filter';
import { duration } from '../format';
import { row } from '../keys';
import { may } from '../session';
import { here, go, to, toJob, toQueue } from '../router';
import { Dialog } from '../parts/Dialog';
import { Badge, Icon } from '../parts/Icon';
import { Json } from '../parts/Json';
import { Pages } from '../parts/Pages';
import { Panel } from '../parts/Panel';
import { Failed, Loading, Nothing, Stale } from '../parts/States';
import { Ago, Moment, Until } from '../parts/Time';

const EVERY_MS = 10_000;

function Actions({ schedule, reload, text }: { schedule: ScheduleRecord; reload(): void; text?: boolean }) {
  if (!may('operator')) return null;
  const at = path('schedules', schedule.name);
  const verb = schedule.paused ? 'Resume' : 'Pause';
  const run = async (action: string, done: string): Promise<void> => {
    if (await act('POST', `${at}/${action}`, done)) reload();
  };
  return (
    <>
      <button class={text ? 'btn' : 'btn quiet'} type="button" disabled={busy.value} aria-label={`Run now: ${schedule.name}`} onClick={() => void run('run', `${schedule.name}: its job is enqueued`)}>Run now</button>
      <button class={text ? 'btn' : 'btn quiet only'} type="button" disabled={busy.value} aria-label={`${verb} ${schedule.name}`} title={verb}
        onClick={() => void run(verb.toLowerCase(), schedule.paused ? `${schedule.name} fires again` : `${schedule.name} is paused; its ticks are passed over`)}><Icon name={schedule.paused ? 'play' : 'pause'} />{text && verb}</button>
    </>
  );
}

function Last({ schedule }: { schedule: ScheduleRecord }) {
  if (!schedule.last_enqueued_at) return <span class="faint">never</span>;
  const state = schedule.last_run as JobState | null;
  const badge = state && STATES.includes(state) ? <Badge state={state} /> : state;
  return <span class="row">{schedule.last_job ? <a href={toJob(schedule.last_job)}>{badge ?? `job ${schedule.last_job}`}</a> : badge}<span class="sub"><Ago at={schedule.last_enqueued_at} /></span></span>;
}

function Next({ schedule }: { schedule: ScheduleRecord }) {
  if (schedule.error) return <span class="tag bad">never fires</span>;
  if (schedule.paused) return <span class="tag"><Icon name="pause" small />paused</span>;
  const at = schedule.due_at ?? schedule.next_tick;
  return at ? <><b class="strong"><Until at={at} /></b> <span class="sub"><Moment at={at} parts="minutes" /></span></> : <span class="faint">no more</span>;
}

function Row({ schedule, after, at, open, reload }: { schedule: ScheduleRecord; after: string | null; at: boolean; open: boolean; reload(): void }) {
  const { definition } = schedule;
  return (
    <tr class={at ? 'at' : undefined} aria-selected={open}>
      <td class="s-name clip"><a class="name" href={to(['schedules'], { after, name: schedule.name })}>{schedule.name}</a></td>
      <td class="s-cron"><code>{definition?.cron ?? '?'}</code> <span class="sub wide-only">{definition?.zone ?? 'UTC'}</span></td>
      <td class="wide-only lo"><span class="row"><span class="clip">{definition?.kind}</span><a class="tag" href={toQueue(definition?.queue ?? 'default')}>{definition?.queue ?? 'default'}</a></span></td>
      <td class="s-runs"><Last schedule={schedule} /></td>
      <td class="num s-next"><Next schedule={schedule} /></td>
      <td class="acts wide-only"><span class="act"><Actions schedule={schedule} reload={reload} /></span></td>
    </tr>
  );
}

const OVERLAP = { allow: 'the next one is enqueued all the same', skip: 'the tick is passed over', queue_one: 'one waits for its end' };

function missed(rule: NonNullable<ScheduleRecord['definition']>['missed']): string {
  if (rule === 'none') return 'passed over';
  return typeof rule === 'object' ? `the last ${rule.all} are made up for` : 'the last one is made up for';
}

function Remove({ name, close, reload }: { name: string; close(): void; reload(): void }) {
  const remove = async (): Promise<void> => {
    if (!(await act('DELETE', path('schedules', name), `Schedule ${name} is removed`))) return;
    reload();
    go(to(['schedules']));
  };
  return (
    <Dialog title={`Remove schedule ${name}?`} close={close} submit={remove} verb="Remove it">
      <p>It does not fire any more. Jobs that it enqueued stay. A program that declares it puts it back when it starts.</p>
    </Dialog>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return <><dt>{name}</dt><dd>{children}</dd></>;
}

function Detail({ name, reload: reloadList }: { name: string; reload(): void }) {
  const { data, problem, reload } = useResource<ScheduleRecord>(path('schedules', name), EVERY_MS);
  const [removing, setRemoving] = useState(false);
  const both = (): void => {
    reload();
    reloadList();
  };
  if (!data) {
    if (problem?.status === 404) return <section class="panel"><Nothing title={`There is no schedule ${name}`} /></section>;
    return <section class="panel">{problem ? <Failed what={`Schedule ${name} cannot be read`} problem={problem} again={reload} /> : <Loading what={name} />}</section>;
  }
  const { definition } = data;
  return (
    <Panel title={data.name} ruled tools={<><Actions schedule={data} reload={both} text />{may('admin') && <button class="btn danger" type="button" onClick={() => setRemoving(true)}><Icon name="x" />Remove…</button>}</>}>
      {data.error && <p class="stale" role="alert"><span class="dot bad" /><span><b class="strong">It never fires.</b> {data.error}. Declare it anew to mend it.</span></p>}
      <div class="cols even">
        <dl class="facts pad">
          <Fact name="When"><code>{definition?.cron}</code></Fact>
          <Fact name="Time zone">{definition?.zone ?? 'UTC'}</Fact>
          <Fact name="Kind">{definition?.kind}</Fact>
          <Fact name="Queue"><a href={toQueue(definition?.queue ?? 'default')}>{definition?.queue ?? 'default'}</a></Fact>
          {!!definition?.jitter_ms && <Fact name="Jitter">up to {duration(definition.jitter_ms)} later</Fact>}
          <Fact name="While the job before has not ended">{OVERLAP[definition?.overlap ?? 'allow']}</Fact>
          <Fact name="Ticks that were missed">{missed(definition?.missed)}</Fact>
          {data.source && <Fact name="Declared by">{data.source}</Fact>}
          {data.last_tick && <Fact name="Last tick"><Moment at={data.last_tick} /></Fact>}
          {data.queued_tick && <Fact name="A tick that waits"><Moment at={data.queued_tick} /></Fact>}
        </dl>
        <div>
          <h3 class="sub-head">Next ticks{data.paused && ', all of them passed over while it is paused'}</h3>
          {data.next?.length ? <ol class="ticks">{data.next.map(at => <li key={at}><Moment at={at} parts="minutes" /><span class="faint"><Until at={at} /></span></li>)}</ol> : <p class="state">There are none.</p>}
        </div>
      </div>
      {definition && <><h3 class="sub-head">Args of each job</h3><Json of={definition.args} label="Args of each job" redacted /></>}
      {removing && <Remove name={name} close={() => setRemoving(false)} reload={reloadList} />}
    </Panel>
  );
}

export function Schedules() {
  const values = here.value.query;
  const chosen = values.get('name'), after = values.get('after');
  const { data, problem, reload } = useResource<Page<ScheduleRecord>>(query('schedules', { after }), EVERY_MS);
  if (!data) return problem ? <Failed what="The schedules cannot be read" problem={problem} again={reload} /> : <Loading what="the schedules" />;
  const paused = data.items.filter(schedule => schedule.paused).length;
  return (
    <>
      <h1 class="vh">Schedules</h1>
      {problem && <Stale problem={problem} />}
      <Panel title="Schedules" note={`${data.items.length}${paused ? `, ${paused} paused` : ''}${data.next ? ', and more' : ''}`}>
        {data.items.length ? (
          <table class="grid cards cards-sched" data-list>
            <thead><tr><th scope="col">Schedule</th><th scope="col">When</th><th scope="col" class="lo">Job</th><th scope="col">Last job</th><th scope="col" class="num">Next</th><th class="acts wide-only"><span class="vh">Actions</span></th></tr></thead>
            <tbody>{data.items.map((schedule, i) => <Row key={schedule.name} schedule={schedule} after={after} at={row.value === i} open={schedule.name === chosen} reload={reload} />)}</tbody>
          </table>
        ) : after === null ? <Nothing title="No schedule yet">Declare one in your program, in a file with <code>windlass schedules apply</code>, or with <code>windlass schedules set</code>.</Nothing>
          : <Nothing title="Nothing follows" />}
        <Pages at={to(['schedules'], { after })} first={to(['schedules'])} next={data.next ? to(['schedules'], { after: data.next }) : undefined} />
      </Panel>
      {chosen && <Detail key={chosen} name={chosen} reload={reload} />}
    </>
  );
}
