import { useState } from 'preact/hooks';
import type { HandlerReport } from '../api/schema';
import { clock, count, exact, plural } from '../format';
import { Panel, Seg } from './Panel';

/** What handlers wrote while they ran, over all attempts. */
export function Log({ report }: { report: HandlerReport }) {
  const attempts = [...new Set(report.log.map(line => line.attempt))];
  const [chosen, setChosen] = useState('all');
  if (!report.log.length) return null;
  const lines = chosen === 'all' ? report.log : report.log.filter(line => String(line.attempt) === chosen);
  return (
    <Panel title="Log" ruled note={`${plural(report.log.length, 'line')}${report.log_dropped ? `, ${count(report.log_dropped)} older ones dropped` : ''}`}
      tools={attempts.length > 1 && <Seg label="Attempt" of={['all', ...attempts.map(String)]} chosen={chosen} choose={setChosen} />}>
      <ol class="log" tabIndex={0} aria-label="Log lines">
        {lines.map((line, i) => <li key={i}><time dateTime={line.at} title={exact(line.at)}>{clock(line.at, 'millis')}</time><span class="lv" title={`attempt ${line.attempt}`}>#{line.attempt}</span><span>{line.text}</span></li>)}
      </ol>
    </Panel>
  );
}
