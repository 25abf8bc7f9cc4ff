import type { JobRecord } from '../api/schema';
import { now } from '../clock';
import { clock, duration } from '../format';
import { life, sums } from '../life';
import { Panel } from './Panel';

const MARKS = [0, 0.25, 0.5, 0.75, 1];
const LABELLED = 11;

/** Waiting, running and backoff as a band of time: why did it take so long. */
export function Life({ job }: { job: JobRecord }) {
  const now_ = now.value;
  const all = life(job, now_);
  const long = all.to - all.from;
  const x = (at: number): number => Math.round(((at - all.from) / long) * 10_000) / 100;
  const shares = sums(all);
  const label = (at: number): string => (long > 86_400_000 ? new Date(at).toLocaleString('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }) : clock(at, long < 2_000 ? 'millis' : 'seconds'));
  return (
    <>
      <div class="life-box" tabIndex={0} role="region" aria-label="Life of the job, scrolls sideways">
        <svg class="life" role="img" aria-label={`Life of the job: ${shares.map(({ what, ms }) => `${what} ${duration(ms)}`).join(', ')}; ${all.failures.length} failed attempts`}>
          {all.spans.map(span => (
            <g key={span.from}>
              <rect class={`s-${span.tone}`} x={`${x(span.from)}%`} width={`${x(span.to) - x(span.from)}%`} y="26" height="34" />
              <rect class={`e-${span.tone}`} x={`${x(span.from)}%`} width={`${x(span.to) - x(span.from)}%`} y="26" height="3" />
              {span.text && x(span.to) - x(span.from) > LABELLED && <text class="in" x={`${x(span.from)}%`} dx="8" y="47">{span.text}</text>}
            </g>
          ))}
          {all.failures.map(failure => <g key={failure.at}><line class="failed-at" x1={`${x(failure.at)}%`} x2={`${x(failure.at)}%`} y1="20" y2="66" /><text x={`${x(failure.at)}%`} y="14" text-anchor={x(failure.at) < 6 ? 'start' : x(failure.at) > 94 ? 'end' : 'middle'}>{all.failures.length <= LABELLED ? `${failure.attempt} failed` : ''}</text></g>)}
          <g class="axis">
            <line class="gridline" x1="0" x2="100%" y1="78" y2="78" />
            {MARKS.map(mark => <text key={mark} x={`${mark * 100}%`} y="96" text-anchor={mark === 0 ? 'start' : mark === 1 ? 'end' : 'middle'}>{label(all.from + long * mark)}</text>)}
          </g>
          {!job.finished_at && now_ < all.to + 2_000 && <line class="now" x1={`${Math.min(100, x(now_))}%`} x2={`${Math.min(100, x(now_))}%`} y1="20" y2="78" />}
        </svg>
      </div>
    </>
  );
}

export function LifePanel({ job }: { job: JobRecord }) {
  const end = job.finished_at ? Date.parse(job.finished_at) : now.value;
  const whole = Math.max(0, end - Date.parse(job.enqueued_at));
  const shares = sums(life(job, now.value));
  const progress = job.report?.progress;
  return (
    <Panel title="Life" note={`${duration(whole)} ${job.finished_at ? 'from enqueued to ended' : 'since it was enqueued'}`}
      legend={shares.map(({ what, tone, ms }) => <li key={what}><i class={`dot b-${tone}`} />{what} <b>{duration(ms)}</b></li>)}>
      <Life job={job} />
      {progress && (
        <div class="progress">
          <div class="row"><span><b class="strong tab">{Math.round(progress.percent)} %</b> <span class="muted">{progress.note}</span></span><span class="faint small">said in attempt {job.report?.attempt}</span></div>
          <progress class={job.state === 'running' ? 'big' : job.state === 'completed' ? 'big done' : 'big idle'} max={100} value={progress.percent} aria-label={`${Math.round(progress.percent)} percent done`} />
        </div>
      )}
    </Panel>
  );
}
