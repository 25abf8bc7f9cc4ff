// What happened to a job, the newest first, as far as its record tells.

import type { ComponentChildren } from 'preact';
import type { AttemptError, JobRecord } from '../api/schema';
import { duration, plural } from '../format';
import { Glyph, Icon, type GlyphName } from './Icon';
import { Panel } from './Panel';
import { Moment, Until } from './Time';

interface EventProps {
  tone: string;
  glyph: GlyphName;
  what: string;
  aside?: string | undefined;
  at: string;
  children?: ComponentChildren;
}

function Event({ tone, glyph, what, aside, at, children }: EventProps) {
  return (
    <li>
      <span class={`pin ${tone}`}><Glyph name={glyph} /></span>
      <span class="what">{what} {aside && <span>{aside}</span>}</span><Moment at={at} parts="millis" />
      {children && <div class="more">{children}</div>}
    </li>
  );
}

/** The first line of an error; the rest unfolds. */
function Trace({ error, open }: { error: string; open: boolean }) {
  const [first = '', ...rest] = error.split('\n');
  if (!rest.length && first.length < 90) return <code class="bad">{first}</code>;
  return (
    <details class="trace" open={open}>
      <summary><Icon name="right" small /><span class="clip">{first}</span></summary>
      <pre tabIndex={0} role="region" aria-label="The whole error">{error}</pre>
    </details>
  );
}

const SHOWN = 20;

function End({ job, at, worker }: { job: JobRecord; at: string; worker: string | undefined }) {
  const ran = job.claimed_at ? duration(Date.parse(at) - Date.parse(job.claimed_at)) : undefined;
  if (job.state === 'completed') return <Event tone="completed" glyph="completed" what="Completed" aside={[ran && `after ${ran}`, worker && `on ${worker}`].filter(Boolean).join(' ')} at={at} />;
  const cancelled = job.state === 'cancelled';
  return (
    <Event tone={cancelled ? '' : 'discarded'} glyph={cancelled ? 'cancelled' : 'discarded'} what={cancelled ? 'Cancelled' : 'Discarded'} aside={cancelled ? undefined : `after ${plural(job.attempt, 'attempt')}`} at={at}>
      {job.reason}
    </Event>
  );
}

function Pending({ job, worker }: { job: JobRecord; worker: string | undefined }) {
  if (job.finished_at) return <End job={job} at={job.finished_at} worker={worker} />;
  if (job.state === 'running' && job.claimed_at) return <Event tone="running" glyph="running" what={`Attempt ${job.attempt}`} aside={worker && `on ${worker}`} at={job.claimed_at}>Claimed; it runs, or is about to.</Event>;
  if (job.scheduled_at && (job.state === 'retryable' || job.state === 'scheduled')) {
    return <Event tone={job.state} glyph={job.state} what={job.state === 'retryable' ? `Attempt ${job.attempt + 1}` : 'To be available'} at={job.scheduled_at}><Until at={job.scheduled_at} /></Event>;
  }
  return null;
}

export function Attempts({ job, worker }: { job: JobRecord; worker: string | undefined }) {
  const failed: AttemptError[] = [...job.errors].reverse();
  return (
    <Panel title="Attempts" note={`${job.attempt} of ${job.max_attempts}`}>
      <div class="body"><ol class="events">
        <Pending job={job} worker={worker} />
        {failed.slice(0, SHOWN).map((error, i) => (
          <Event key={error.at} tone="discarded" glyph="discarded" what={`Attempt ${error.attempt} failed`} at={error.at}><Trace error={error.error} open={i === 0} /></Event>
        ))}
        {failed.length > SHOWN && <li><span class="pin"><Icon name="more" /></span><span class="what">{plural(failed.length - SHOWN, 'earlier failure')}</span></li>}
        {job.crash_count > 0 && <li><span class="pin retryable"><Glyph name="retryable" /></span><span class="what">{plural(job.crash_count, 'worker')} died while {job.crash_count === 1 ? 'it' : 'they'} held this job</span><div class="more">It was available again each time; no attempt was used up.</div></li>}
        <Event tone="" glyph="enqueued" what="Enqueued" at={job.enqueued_at} />
      </ol></div>
    </Panel>
  );
}
