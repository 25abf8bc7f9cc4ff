import { useState } from 'preact/hooks';
import { act } from '../act';
import { path, query } from '../api/client';
import { useOverview, useTopic } from '../api/live';
import type { JobRecord, Json as Any } from '../api/schema';
import { bytes, duration } from '../format';
import { may, session } from '../session';
import { to, toQueue } from '../router';
import { Attempts } from '../parts/Attempts';
import { Dialog } from '../parts/Dialog';
import { Badge, Icon } from '../parts/Icon';
import { JobActions } from '../parts/JobActions';
import { Json } from '../parts/Json';
import { LifePanel } from '../parts/Life';
import { Log } from '../parts/Log';
import { Panel } from '../parts/Panel';
import { tell } from '../parts/Say';
import { Failed, Loading, Nothing, Stale } from '../parts/States';
import { Moment } from '../parts/Time';

const size = (value: Any): number => new TextEncoder().encode(JSON.stringify(value)).length;

async function copy(value: Any): Promise<void> {
  try {
    await navigator.clipboard.writeText(JSON.stringify(value, null, 2));
    tell('Copied');
  } catch {
    tell('The browser does not allow copying here; select the text instead', true);
  }
}

function Args({ job, revealed, reveal }: { job: JobRecord; revealed: Any; reveal(args: Any): void }) {
  const [asked, setAsked] = useState(false);
  const shown = revealed === undefined ? job.args : revealed;
  const hidden = (!!job.redacted || !!job.cut) && revealed === undefined;
  const [reason, setReason] = useState('');
  const read = async (): Promise<void> => {
    const done = (answer: { args: Any }): string => {
      reveal(answer.args);
      return 'Shown until you leave this page';
    };
    if (await act('GET', query(path('jobs', job.id, 'args'), { reveal: 1, reason: reason.trim() }), done)) setAsked(false);
  };
  return (
    <Panel title="Args" ruled note={hidden ? (job.redacted ? 'some values are hidden' : 'not shown as a whole') : bytes(size(shown))}
      tools={<>
        {hidden && may('admin') && <button class="btn quiet" type="button" onClick={() => setAsked(true)}><Icon name="lock" />Reveal…</button>}
        <button class="btn quiet only" type="button" aria-label="Copy args" title="Copy" onClick={() => void copy(shown)}><Icon name="copy" /></button>
      </>}>
      <Json of={shown} label="Args" redacted={hidden} />
      {asked && <Dialog title="Reveal what is hidden?" close={() => setAsked(false)} submit={read} verb="Reveal">
        <p>The args of job {job.id} have values that look like secrets, or are long. They are shown to you on this page, until you leave it.</p>
        <label class="confirm"><span>Why, for the audit log</span><input class="field" autocomplete="off" value={reason} onInput={event => setReason(event.currentTarget.value)} /></label>
      </Dialog>}
    </Panel>
  );
}

function policy({ backoff, base_ms, max_ms }: NonNullable<JobRecord['retry_policy']>): string {
  return backoff === 'fixed' ? `fixed, ${duration(base_ms)}` : `${backoff}, ${duration(base_ms)} to ${duration(max_ms)}`;
}

function Details({ job, worker }: { job: JobRecord; worker: string | undefined }) {
  return (
    <Panel title="Details" ruled>
      <dl class="facts pad">
        <dt>Priority</dt><dd>{job.priority}</dd>
        <dt>Enqueued</dt><dd><Moment at={job.enqueued_at} /></dd>
        {job.scheduled_at && <><dt>Available from</dt><dd><Moment at={job.scheduled_at} /></dd></>}
        {job.claimed_at && <><dt>Last claimed</dt><dd><Moment at={job.claimed_at} />{worker && `, ${worker}`}</dd></>}
        {job.finished_at && <><dt>Ended</dt><dd><Moment at={job.finished_at} /></dd></>}
        {job.key && <><dt>Key</dt><dd class="mono">{job.key}</dd></>}
        {job.tags.length > 0 && <><dt>Tags</dt><dd class="row wrap end">{job.tags.map(tag => <a class="tag" key={tag} href={to(['jobs'], { tag })}>{tag}</a>)}</dd></>}
        {job.timeout_ms !== null && job.timeout_ms !== undefined && <><dt>Timeout</dt><dd>{duration(job.timeout_ms)} an attempt</dd></>}
        {job.retry_policy && <><dt>Backoff</dt><dd>{policy(job.retry_policy)}</dd></>}
        {job.expires_at && <><dt>Not started after</dt><dd><Moment at={job.expires_at} /></dd></>}
        {job.cost && <><dt>Cost of a start</dt><dd>{job.cost}</dd></>}
        {job.crash_count > 0 && <><dt>Workers died with it</dt><dd>{job.crash_count}</dd></>}
      </dl>
    </Panel>
  );
}

/** Where the trace of which the job is a part is shown. */
function traceOf(meta: Any): string | undefined {
  const carried = meta !== null && typeof meta === 'object' && 'traceparent' in meta ? meta.traceparent : undefined;
  const trace = typeof carried === 'string' ? /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(carried)?.[1] : undefined;
  return trace && session.value?.trace_url?.replaceAll('{trace_id}', trace);
}

export function Job({ id }: { id: string }) {
  const { data, problem } = useTopic<JobRecord>(`job:${id}`);
  const workers = useOverview().data.value?.workers ?? [];
  const [revealed, setRevealed] = useState<Any>(undefined);
  const job = data.value;
  if (!job) {
    if (problem.value?.status === 404) return <Nothing title={`There is no job ${id}`}>It never was, it was deleted, or its history was removed with the retention of its queue. <a class="strong" href={to(['jobs'])}>All jobs</a></Nothing>;
    return problem.value ? <Failed what={`Job ${id} cannot be read`} problem={problem.value} /> : <Loading what={`job ${id}`} />;
  }
  const held = job.claimed_by;
  const worker = held === null || held === undefined ? undefined : workers.find(one => String(one.id) === String(held))?.name ?? `worker ${held}`;
  const checkpoint = job.report?.checkpoint;
  const trace = traceOf(job.meta);
  return (
    <>
      {problem.value && <Stale problem={problem.value} />}
      <div class="job-head">
        <div>
          <h1><span class="clip">{job.kind}</span> <Badge state={job.state} /></h1>
          <div class="meta"><span class="mono">{job.id}</span><span>queue <a class="strong" href={toQueue(job.queue)}>{job.queue}</a></span><span>attempt <b class="strong">{job.attempt}</b> of {job.max_attempts}</span>{worker && <span>on <a class="strong" href={to(['workers'])}>{worker}</a></span>}{trace && <a class="strong" href={trace} target="_blank" rel="noreferrer">trace</a>}</div>
        </div>
        <JobActions job={job} revealed={revealed} />
      </div>
      <LifePanel job={job} />
      <div class="cols job-cols">
        <div class="stack"><Attempts job={job} worker={worker} />{job.report && <Log report={job.report} />}</div>
        <div class="stack">
          <Args job={job} revealed={revealed} reveal={setRevealed} />
          {job.result !== null && job.result !== undefined && <Panel title="Result" ruled note={bytes(size(job.result))}><Json of={job.result} label="Result" redacted={!!job.redacted || !!job.cut} /></Panel>}
          {checkpoint !== null && checkpoint !== undefined && <Panel title="Checkpoint" ruled note="what the next attempt is given"><Json of={checkpoint} label="Checkpoint" redacted={!!job.redacted || !!job.cut} /></Panel>}
          {job.meta !== null && job.meta !== undefined && <Panel title="Meta" ruled><Json of={job.meta} label="Meta" redacted={!!job.redacted || !!job.cut} /></Panel>}
          <Details job={job} worker={worker} />
        </div>
      </div>
    </>
  );
}
