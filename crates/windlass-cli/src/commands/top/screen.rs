//! A terminal that is drawn on, and is afterwards as it was.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::{
    io::{self, Write},
    panic,
};

/// The alternate screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// What is drawn on when the terminal does not say how large it is.
const SIZE: (usize, usize) = (80, 24);

/// Given back when it is dropped, and when the program panics.
pub(super) struct Screen(Option<Termios>);

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        // Without one there are no keys.
        let before = tcgetattr(io::stdin()).ok();
        let of_hook = before.clone();
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back(of_hook.as_ref());
            hook(panic);
        }));
        let screen = Self(before);
        if let Some(before) = &screen.0 {
            let mut keys = before.clone();
            // One by one, not shown, and no signals: a stop by Ctrl-Z would leave the terminal like this.
            keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
            tcsetattr(io::stdin(), OptionalActions::Now, &keys)?;
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(ENTER.as_bytes())?;
        stdout.flush()?;
        Ok(screen)
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => SIZE,
        }
    }

    /// In one write and over what is there, so that nothing flickers.
    pub(super) fn draw(&mut self, text: &str) -> io::Result<()> {
        let text = format!("\x1b[H{}\x1b[K\x1b[J", text.replace('\n', "\x1b[K\r\n"));
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back(self.0.as_ref());
    }
}

fn give_back(before: Option<&Termios>) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(LEAVE.as_bytes()).and_then(|()| stdout.flush());
    if let Some(before) = before {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
    }
}
