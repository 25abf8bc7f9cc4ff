//! What a connection is about, told from its messages.

use super::{CommitCuts, CutPoint, framer::Piece, sql::Role};
use std::collections::{HashMap, VecDeque};

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
/// Prepared statements and portals of a connection that are remembered; more are forgotten, all at once.
const MAX_NAMES: usize = 4096;
/// Of a statement's text so much is remembered.
const MAX_SQL: usize = 2048;
/// Requests without an answer, after which the connection is no longer followed.
const MAX_IN_FLIGHT: usize = 65_536;

/// A request that ends with ReadyForQuery.
#[derive(Clone, Copy)]
struct Cycle {
    number: u64,
    is_sync: bool,
}

/// What a message of the client means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Ordinary,
    /// When the server gets it, a transaction that counts is committed.
    Commit,
}

/// What to do with a message of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Ordinary,
    /// It belongs to the answer that is kept back.
    KeptBack,
    /// The last of them.
    KeptBackAndDone,
}

#[derive(Default)]
pub(super) struct Tracker {
    /// Encrypted or not this protocol: bytes are passed on as they are.
    pub(super) is_opaque: bool,
    bytes_expected: usize,
    in_flight: VecDeque<Cycle>,
    next_cycle: u64,
    /// There are messages of the extended protocol after the last Sync.
    is_partial: bool,
    /// A transaction block is open once the server has done all that was sent.
    is_open: bool,
    /// The transaction, block or not, has a statement that counts.
    counts: bool,
    /// A COPY that the server may be reading from, whose first Sync it ignores.
    is_copying: bool,
    statements: HashMap<Vec<u8>, String>,
    portals: HashMap<Vec<u8>, String>,
    kept_back: Option<u64>,
    /// Where the connection is cut for a commit that has come, once its request has ended.
    pub(super) armed: Option<CutPoint>,
}

impl Tracker {
    pub(super) fn expects_byte(&self) -> bool {
        self.bytes_expected > 0
    }

    /// Answers whether messages have types from now on.
    pub(super) fn untyped(&mut self, code: u32) -> bool {
        if matches!(code, SSL_REQUEST | GSS_REQUEST) {
            self.bytes_expected += 1;
            return false;
        }
        self.begin_cycle(false);
        true
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes_expected = self.bytes_expected.saturating_sub(1);
        self.is_opaque |= byte != b'N';
    }

    /// The answer to the last request is kept back from the client.
    pub(super) fn keep_back(&mut self) {
        self.kept_back = self.next_cycle.checked_sub(1);
    }

    pub(super) fn keeps_back(&self) -> bool {
        self.kept_back.is_some()
    }

    pub(super) fn client(&mut self, kind: u8, body: &[u8], cuts: Option<&CommitCuts>) -> Meaning {
        match kind {
            b'Q' => {
                self.begin_cycle(false);
                let (sql, _) = text(body);
                self.statement(&sql, cuts, true)
            }
            b'P' => {
                let (name, rest) = name(body);
                remember(&mut self.statements, name, text(rest).0);
                self.partial()
            }
            b'B' => {
                let (portal, rest) = name(body);
                let (statement, _) = name(rest);
                let sql = self.statements.get(statement).cloned().unwrap_or_default();
                remember(&mut self.portals, portal, sql);
                self.partial()
            }
            b'E' => {
                self.partial();
                let sql = self.portals.get(name(body).0).cloned().unwrap_or_default();
                self.statement(&sql, cuts, false)
            }
            b'S' => self.sync(),
            b'F' => {
                self.begin_cycle(false);
                Meaning::Ordinary
            }
            b'C' => self.close(body),
            b'c' | b'f' => {
                self.is_copying = false;
                self.partial()
            }
            b'D' | b'H' => self.partial(),
            _ => Meaning::Ordinary,
        }
    }

    pub(super) fn server(&mut self, piece: &Piece, body: &[u8]) -> Answer {
        let is_kept =
            self.kept_back.is_some() && self.kept_back == self.in_flight.front().map(|it| it.number);
        match piece {
            Piece::Message(b'Z') => {
                self.in_flight.pop_front();
                if self.in_flight.is_empty() && !self.is_partial {
                    self.is_open = body.first().is_some_and(|status| *status != b'I');
                    self.counts &= self.is_open;
                    self.is_copying = false;
                }
                if is_kept { Answer::KeptBackAndDone } else { Answer::Ordinary }
            }
            // The server reads rows now, and ignores the Sync that a client sent along with the Execute.
            Piece::Message(b'G' | b'W') if self.in_flight.front().is_some_and(|it| it.is_sync) => {
                self.in_flight.pop_front();
                Answer::Ordinary
            }
            _ if is_kept => Answer::KeptBack,
            _ => Answer::Ordinary,
        }
    }

    fn statement(&mut self, sql: &str, cuts: Option<&CommitCuts>, is_simple: bool) -> Meaning {
        // A simple query may hold several statements; a semicolon in a literal only makes more parts of it.
        let counts = cuts.is_some_and(|cuts| {
            cuts.counts(sql) || (is_simple && sql.split(';').skip(1).any(|part| cuts.counts(part)))
        });
        let is_commit = match Role::of(sql) {
            Role::Begin => {
                (self.is_open, self.counts) = (true, counts);
                false
            }
            Role::Commit => self.is_open && self.end_block(),
            Role::Rollback => {
                self.end_block();
                false
            }
            Role::Whole => counts,
            role => {
                self.is_copying = role == Role::CopyIn;
                if self.is_open || !is_simple {
                    self.counts |= counts;
                    false
                } else {
                    counts && role != Role::CopyIn
                }
            }
        };
        if is_commit { Meaning::Commit } else { Meaning::Ordinary }
    }

    /// Ends a transaction of its own, if there is one.
    fn sync(&mut self) -> Meaning {
        self.begin_cycle(true);
        if !self.is_open && !self.is_copying && self.end_block() {
            Meaning::Commit
        } else {
            Meaning::Ordinary
        }
    }

    /// Answers whether the transaction counted.
    fn end_block(&mut self) -> bool {
        self.is_open = false;
        std::mem::take(&mut self.counts)
    }

    fn close(&mut self, body: &[u8]) -> Meaning {
        if let Some((what, rest)) = body.split_first() {
            let names = if *what == b'S' { &mut self.statements } else { &mut self.portals };
            names.remove(name(rest).0);
        }
        self.partial()
    }

    fn partial(&mut self) -> Meaning {
        self.is_partial = true;
        Meaning::Ordinary
    }

    fn begin_cycle(&mut self, is_sync: bool) {
        self.is_partial = false;
        self.is_opaque |= self.in_flight.len() >= MAX_IN_FLIGHT;
        self.in_flight.push_back(Cycle { number: self.next_cycle, is_sync });
        self.next_cycle += 1;
    }
}

fn remember(names: &mut HashMap<Vec<u8>, String>, name: &[u8], mut sql: String) {
    if names.len() >= MAX_NAMES {
        names.clear();
    }
    let end = (0..=MAX_SQL.min(sql.len())).rev().find(|end| sql.is_char_boundary(*end));
    sql.truncate(end.unwrap_or(0));
    names.insert(name.to_vec(), sql);
}

/// A string that ends with a zero byte, or with what is there of it, and what follows.
fn name(body: &[u8]) -> (&[u8], &[u8]) {
    let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
    (&body[..end], body.get(end + 1..).unwrap_or_default())
}

fn text(body: &[u8]) -> (String, &[u8]) {
    let (bytes, rest) = name(body);
    (String::from_utf8_lossy(bytes).into_owned(), rest)
}
