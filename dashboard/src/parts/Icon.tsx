// The drawings: icons of 16 x 16 for what things are, glyphs of 12 x 12 for states. Decorations, all of them: a word stands beside each, or a label.

import type { JobState } from '../api/schema';

const ICONS = {
  overview: () => <path d="M2.5 13.5v-5M6.2 13.5v-8M9.8 13.5V8M13.5 13.5v-11"/>,
  queues: () => <><path d="M2.5 4h11M2.5 8h11M2.5 12h6.5"/><circle cx="12.5" cy="12" r="1"/></>,
  jobs: () => <><rect x="2.5" y="2.5" width="11" height="11" rx="2"/><path d="M5.2 8.2l2 2 3.6-4"/></>,
  schedules: () => <><circle cx="8" cy="8" r="5.7"/><path d="M8 4.8V8l2.2 1.5"/></>,
  workers: () => <><rect x="4" y="4" width="8" height="8" rx="1.6"/><path d="M6.5 1.8V4M9.5 1.8V4M6.5 12v2.2M9.5 12v2.2M1.8 6.5H4M1.8 9.5H4M12 6.5h2.2M12 9.5h2.2"/></>,
  audit: () => <><path d="M8 1.8l5 1.9v3.9c0 3.1-2.1 5.4-5 6.6-2.9-1.2-5-3.5-5-6.6V3.7z"/><path d="M5.8 8l1.6 1.6 2.9-3.2"/></>,
  settings: () => <><path d="M2.5 4.5h6M11.5 4.5h2M2.5 11.5h2M7.5 11.5h6"/><circle cx="10" cy="4.5" r="1.5"/><circle cx="6" cy="11.5" r="1.5"/></>,
  search: () => <><circle cx="7" cy="7" r="4.3"/><path d="M10.3 10.3l3.2 3.2"/></>,
  pause: () => <path d="M5.5 3.5v9M10.5 3.5v9"/>,
  play: () => <path d="M5 3.2v9.6l7.5-4.8z"/>,
  retry: () => <><path d="M13 8a5 5 0 1 1-1.6-3.7"/><path d="M13.2 2.2v2.9h-2.9"/></>,
  x: () => <path d="M4 4l8 8M12 4l-8 8"/>,
  more: () => <><circle cx="3.5" cy="8" r=".9"/><circle cx="8" cy="8" r=".9"/><circle cx="12.5" cy="8" r=".9"/></>,
  right: () => <path d="M6 3.5L10.5 8 6 12.5"/>,
  left: () => <path d="M10 3.5L5.5 8l4.5 4.5"/>,
  down: () => <path d="M3.5 6L8 10.5 12.5 6"/>,
  theme: () => <><circle cx="8" cy="8" r="5.7"/><path d="M8 2.3a5.7 5.7 0 0 1 0 11.4z" fill="currentColor" stroke="none"/></>,
  lock: () => <><rect x="3.2" y="7" width="9.6" height="6.5" rx="1.6"/><path d="M5.2 7V5a2.8 2.8 0 0 1 5.6 0v2"/></>,
  copy: () => <><rect x="5.5" y="5.5" width="8" height="8" rx="1.6"/><path d="M10.5 3.2A1.6 1.6 0 0 0 9 2.5H4A1.5 1.5 0 0 0 2.5 4v5c0 .7.3 1.2.8 1.5"/></>,
  out: () => <path d="M6.5 3.5H4A1.5 1.5 0 0 0 2.5 5v7A1.5 1.5 0 0 0 4 13.5h7a1.5 1.5 0 0 0 1.5-1.5V9.5M9.5 2.5h4v4M13.2 2.8L7.5 8.5"/>,
  store: () => <><ellipse cx="8" cy="3.9" rx="5" ry="1.9"/><path d="M3 3.9v8.2c0 1 2.2 1.9 5 1.9s5-.9 5-1.9V3.9M3 8c0 1 2.2 1.9 5 1.9S13 9 13 8"/></>,
  stop: () => <rect x="4" y="4" width="8" height="8" rx="1.4"/>,
};

const GLYPHS = {
  scheduled: () => <><circle cx="6" cy="6" r="4.4"/><path d="M6 3.6V6l1.6 1"/></>,
  available: () => <circle cx="6" cy="6" r="3.9" stroke-dasharray="2.4 2.1"/>,
  running: () => <path d="M6 1.6A4.4 4.4 0 1 1 1.9 4.4"/>,
  retryable: () => <><path d="M9.9 6a3.9 3.9 0 1 1-1.2-2.8"/><path d="M10 1.4v2.2H7.8"/></>,
  completed: () => <path d="M2.2 6.4l2.5 2.5 5-5.6"/>,
  cancelled: () => <><circle cx="6" cy="6" r="4.2"/><path d="M3.1 8.9l5.8-5.8"/></>,
  discarded: () => <path d="M3 3l6 6M9 3L3 9"/>,
  enqueued: () => <path d="M6 1.8v5.6M3.6 5.2L6 7.6l2.4-2.4M2.4 10.2h7.2"/>,
};

export type IconName = keyof typeof ICONS;
export type GlyphName = keyof typeof GLYPHS;

export function Icon({ name, small }: { name: IconName; small?: boolean }) {
  return <svg class={small ? 'icon icon-s' : 'icon'} viewBox="0 0 16 16" aria-hidden="true">{ICONS[name]()}</svg>;
}

export function Glyph({ name }: { name: GlyphName }) {
  return <svg viewBox="0 0 12 12" aria-hidden="true">{GLYPHS[name]()}</svg>;
}

/** A state: a shape and a word, the colour only repeats them. */
export function Badge({ state }: { state: JobState }) {
  return <span class={`badge ${state}`}>{state in GLYPHS && <Glyph name={state} />}{state}</span>;
}

export function Mark({ of }: { of?: string }) {
  return (
    <svg class={of ? `mk ${of}` : 'mk'} viewBox="0 0 24 24" aria-hidden="true">
      <rect width="24" height="24" rx="6.5" />
      <g><circle cx="11" cy="13" r="5" /><circle class="hub" cx="11" cy="13" r="1.6" /><path d="M12.2 11.8L17 7M15.8 5.6l2.6 2.6" /></g>
    </svg>
  );
}
