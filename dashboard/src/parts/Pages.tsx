import { useKeys } from '../keys';
import { go } from '../router';
import { Icon } from './Icon';

/** Below a list that comes in pages: back to its `first` one from a later one (which has an `after`), and on to the `next`. */
export function Pages({ after, first, next }: { after: string | null; first: string; next: string | undefined }) {
  useKeys({ ']': next ? () => go(next) : undefined, '[': after !== null ? () => history.back() : undefined });
  return after !== null || next ? (
    <div class="table-foot"><span class="tools">
      {after !== null && <a class="btn" href={first}><Icon name="left" />First page</a>}
      {next && <a class="btn" href={next}>More <kbd aria-hidden="true">]</kbd><Icon name="right" /></a>}
    </span></div>
  ) : null;
}
