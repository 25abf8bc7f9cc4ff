import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { busy } from '../act';
import { session } from '../session';

interface DialogProps {
  title: string;
  close(): void;
  children: ComponentChildren;
  /** What stands at the bottom left; else that it is written to the audit log, and as whom. */
  note?: string;
  /** What its button says; a dialog without one is closed with Escape, or by a click beside it. */
  verb?: string;
  /** Whether it can be pressed; if this is not said, while nothing is being done. */
  ready?: boolean;
  /** What the button does, and Enter in a field. */
  submit?: () => void;
}

/** A question over the page. It is there while it is rendered, and gives the focus back where it was. */
export function Dialog({ title, close, children, note, verb, ready = !busy.value, submit }: DialogProps) {
  const dialog = useModal();
  const id = useId();
  const pressed = useRef<EventTarget | null>(null); // a selection may begin in a field and end beside the dialog
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={close} onPointerDown={event => { pressed.current = event.target; }}
      onClick={event => event.target === dialog.current && pressed.current === dialog.current && close()}>
      <form method="dialog" onSubmit={event => { event.preventDefault(); submit?.(); }}>
        <header><h2 id={id}>{title}</h2></header>
        <div class="content">{children}</div>
        {verb && <footer>
          <span class="small faint">{note ?? `Written to the audit log as ${session.value?.actor ?? 'you'}`}</span>
          <span class="tools"><button class="btn" type="button" onClick={close}>Back</button><button class="btn primary" type="submit" disabled={!ready}>{verb}</button></span>
        </footer>}
      </form>
    </dialog>
  );
}

/** Opens the dialog that it is given to. */
export function useModal() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return dialog;
}
