import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';

interface DialogProps {
  title: string;
  close(): void;
  children: ComponentChildren;
  /** What stands at the bottom left: who does it, what is written down. */
  note?: ComponentChildren;
  /** Buttons; a dialog without any is closed with Escape, or by a click beside it. */
  tools?: ComponentChildren;
  /** What Enter in a field does. */
  submit?: () => void;
}

/** A question over the page. It is there while it is rendered, and gives the focus back where it was. */
export function Dialog({ title, close, children, note, tools, submit }: DialogProps) {
  const dialog = useModal();
  const id = useId();
  const pressed = useRef<EventTarget | null>(null); // a selection may begin in a field and end beside the dialog
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={close} onPointerDown={event => { pressed.current = event.target; }}
      onClick={event => event.target === dialog.current && pressed.current === dialog.current && close()}>
      <form method="dialog" onSubmit={event => { event.preventDefault(); submit?.(); }}>
        <header><h2 id={id}>{title}</h2></header>
        <div class="content">{children}</div>
        {tools && <footer><span class="small faint">{note}</span><span class="tools">{tools}</span></footer>}
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
