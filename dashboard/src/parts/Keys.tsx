import { GOES, overlay } from '../keys';
import { may, sees } from '../session';
import { Dialog } from './Dialog';

const Line = ({ what, keys, or }: { what: string; keys: string[]; or?: string[] }) => (
  <li><span>{what}</span><span>{keys.map(key => <kbd key={key}>{key}</kbd>)}{or && <><span class="faint small">or</span>{or.map(key => <kbd key={key}>{key}</kbd>)}</>}</span></li>
);

export function Keys() {
  return (
    <Dialog title="Keyboard shortcuts" close={() => (overlay.value = undefined)}>
      <ul class="keys" id="keys">
        <li class="head"><h3>Anywhere</h3></li>
        <Line what="Search, commands" keys={['/']} or={['Ctrl', 'K']} />
        <Line what="Pause live updates" keys={['.']} />
        <Line what="Light or dark" keys={['t']} />
        <Line what="This help" keys={['?']} />
        {Object.entries(GOES).filter(([key]) => key !== 'a' || sees('admin')).map(([key, [name]]) => <Line key={key} what={name} keys={['g', key]} />)}
        <li class="head"><h3>In a list</h3></li>
        <Line what="Next, previous row" keys={['j', 'k']} />
        <Line what="Open it" keys={['↵']} />
        <Line what="Older, newer page" keys={[']', '[']} />
        {may('operator') && <>
          <Line what="Select the row" keys={['x']} />
          <Line what="Retry what is selected" keys={['r']} />
          <Line what="Cancel what is selected" keys={['c']} />
        </>}
      </ul>
    </Dialog>
  );
}
