//! On a terminal: `windlass top` draws, takes keys, and leaves the terminal as it was; long work says how far it is; the log has colours.

use crate::program::{Home, eventually, signal};
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread,
};

/// The modes of a terminal that somebody types at.
const TYPED_AT: LocalModes = LocalModes::ICANON.union(LocalModes::ECHO).union(LocalModes::ISIG);

/// A terminal, and what was written to it.
struct Terminal {
    keyboard: File,
    line: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open() -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let path = ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap();
        let line = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let size = Winsize { ws_row: 12, ws_col: 92, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&line, size).unwrap();
        let (keyboard, written) = (File::from(keyboard), Arc::<Mutex<Vec<u8>>>::default());
        let (mut screen, shown) = (keyboard.try_clone().unwrap(), Arc::clone(&written));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                shown.lock().unwrap().extend(&bytes[..count]);
            }
        });
        Self { keyboard, line, written }
    }

    fn run(&self, mut command: Command) -> Child {
        let line = || self.line.try_clone().unwrap();
        command.env("TERM", "xterm"); // without, or where it is dumb, no bar is drawn: CI sets none
        command.stdin(line()).stdout(line()).stderr(line()).spawn().unwrap()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    fn shows(&self, text: &str) {
        eventually(text, || self.text().contains(text));
    }

    fn press(&mut self, key: u8) {
        self.keyboard.write_all(&[key]).unwrap();
    }

    fn modes(&self) -> LocalModes {
        tcgetattr(&self.line).unwrap().local_modes & TYPED_AT
    }
}

#[test]
fn the_terminal_is_as_it_was_however_it_ends() {
    let home = Home::new();
    home.enqueue(&["a", "--queue", "mail"]);
    let ends: [fn(&mut Terminal, &Child); 4] = [
        |terminal, _| terminal.press(b'q'),
        |terminal, _| terminal.press(3),
        |_, child| signal(child, "TERM"),
        |_, child| signal(child, "INT"),
    ];
    for end in ends {
        let mut terminal = Terminal::open();
        let mut child = terminal.run(home.command(&["top"]));
        terminal.shows("mail   open");
        assert_eq!(terminal.modes(), LocalModes::empty(), "keys are read one by one");
        terminal.press(b's');
        terminal.shows("by running");
        terminal.press(b'p');
        terminal.shows("by running, paused");
        end(&mut terminal, &child);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{}", terminal.text());
        terminal.shows("\u{1b}[?25h\u{1b}[?1049l");
        assert_eq!(terminal.modes(), TYPED_AT);
    }
}

#[test]
fn it_draws_no_more_than_fits() {
    let home = Home::new();
    for n in 0..20 {
        home.enqueue(&["a", "--queue", &format!("queue{n}")]);
    }
    let mut terminal = Terminal::open();
    let mut child = terminal.run(home.command(&["top", "--sort", "name"]));
    // The last line of the frame.
    terminal.shows("s sort");
    let text = terminal.text();
    assert_eq!(text.split("\u{1b}[H").nth(1).unwrap().matches('\n').count(), 11, "{text}");
    // What does not fit is cut, not wrapped.
    assert!(text.contains("FAILED/S  RETRYABLE  SCHEDULE\u{1b}[K"), "{text}");
    assert!(text.contains("queue0 ") && text.contains("… and 16 more"), "{text}");
    terminal.press(b'q');
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_long_name_leaves_room_for_the_figures() {
    let home = Home::new();
    home.enqueue(&["a", "--queue", &"q".repeat(128)]);
    let mut terminal = Terminal::open();
    let mut child = terminal.run(home.command(&["top"]));
    terminal.shows("s sort");
    terminal.shows(&format!("{}…  open           1 ", "q".repeat(30)));
    // Also while nothing moves it is drawn anew where there is another size to draw on.
    terminal.press(b'p');
    terminal.shows("paused");
    let size = Winsize { ws_row: 12, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal.line, size).unwrap();
    signal(&child, "WINCH");
    terminal.shows(&format!("{}…  open           1 ", "q".repeat(20)));
    terminal.press(b'q');
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn long_work_says_how_far_it_is() {
    let home = Home::new();
    std::fs::write(home.path().join("jobs"), "{\"kind\":\"a\"}\n".repeat(6_000)).unwrap();
    // Which of its numbers are drawn is up to the clock.
    let of = |args: &[&str], label: &str| {
        let terminal = Terminal::open();
        assert!(terminal.run(home.command(args)).wait().unwrap().success(), "{}", terminal.text());
        terminal.shows(&format!("{label} "));
        terminal.shows("/s");
        assert!(!terminal.text().contains(" of 0"), "{}", terminal.text());
    };
    of(&["enqueue", "--many", "jobs"], " enqueued");
    of(&["jobs", "cancel", "--kind", "a", "--dry-run"], "  counted");
    of(&["jobs", "cancel", "--kind", "a"], "cancelled");
}

#[test]
fn the_log_has_colours_unless_somebody_wants_none() {
    let home = Home::new();
    for (no_color, coloured) in [(None, true), (Some(""), true), (Some("1"), false)] {
        home.enqueue(&["mail.send", "--max-attempts", "1"]);
        let terminal = Terminal::open();
        let mut command = home.command(&["work", "--exec", "exit 3", "--until-empty"]);
        command.env_remove("NO_COLOR");
        if let Some(said) = no_color {
            command.env("NO_COLOR", said);
        }
        terminal.run(command).wait().unwrap();
        terminal.shows("mail.send");
        assert_eq!(
            terminal.text().contains("\u{1b}["),
            coloured,
            "NO_COLOR={no_color:?}: {}",
            terminal.text()
        );
    }
}
