use super::{CommitCuts, Proxy};
use std::{net::SocketAddr, sync::Arc, time::Duration};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ClientToServer,
    /// From the server to the client.
    ServerToClient,
    /// Both ways.
    Both,
}

impl Direction {
    pub(super) fn ways(self) -> &'static [Way] {
        match self {
            Self::ClientToServer => &[Way::Up],
            Self::ServerToClient => &[Way::Down],
            Self::Both => &[Way::Up, Way::Down],
        }
    }
}

/// One way of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To the server.
    Up,
    /// To the client.
    Down,
}

impl Way {
    pub(super) fn back(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// How the proxy behaves now. A number that only grows stands for an event.
#[derive(Clone)]
pub(super) struct Faults {
    pub(super) upstream: SocketAddr,
    pub(super) refuse: bool,
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
    pub(super) bytes_per_second: Option<u64>,
    pub(super) swallow_notifications: bool,
    pub(super) commit_cuts: Option<Arc<CommitCuts>>,
    pub(super) cuts: u64,
    pub(super) strandings: u64,
    up: WayFaults,
    down: WayFaults,
}

#[derive(Clone, Copy, Default)]
pub(super) struct WayFaults {
    pub(super) black: bool,
    pub(super) stalled: bool,
    pub(super) half_closes: u64,
}

impl Faults {
    pub(super) fn none(upstream: SocketAddr) -> Self {
        Self {
            upstream,
            refuse: false,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            bytes_per_second: None,
            swallow_notifications: false,
            commit_cuts: None,
            cuts: 0,
            strandings: 0,
            up: WayFaults::default(),
            down: WayFaults::default(),
        }
    }

    pub(super) fn of(&self, way: Way) -> WayFaults {
        match way {
            Way::Up => self.up,
            Way::Down => self.down,
        }
    }

    fn change(&mut self, direction: Direction, change: impl Fn(&mut WayFaults)) {
        for way in direction.ways() {
            change(match way {
                Way::Up => &mut self.up,
                Way::Down => &mut self.down,
            });
        }
    }
}

/// What may go wrong, each from now on until it is changed again.
impl Proxy {
    fn change(&self, change: impl FnOnce(&mut Faults)) {
        self.shared.faults.send_modify(change);
    }

    /// Takes all faults back; `retarget` stays.
    pub fn heal(&self) {
        self.change(|faults| {
            let now = Faults::none(faults.upstream);
            let keep = |old: WayFaults| WayFaults { half_closes: old.half_closes, ..WayFaults::default() };
            *faults = Faults {
                cuts: faults.cuts,
                strandings: faults.strandings,
                up: keep(faults.up),
                down: keep(faults.down),
                ..now
            };
        });
    }

    /// Bytes arrive so much later, each way, and up to `jitter` more, never out of order.
    pub fn set_delay(&self, delay: Duration, jitter: Duration) {
        self.change(|faults| (faults.delay, faults.jitter) = (delay, jitter));
    }

    /// At most so many bytes a second, for each connection and way.
    pub fn bandwidth(&self, bytes_per_second: Option<u64>) {
        self.change(|faults| faults.bytes_per_second = bytes_per_second);
    }

    /// Resets every connection that is open now. See [`super::Counts::open`] for when it is done.
    pub fn cut_all(&self) {
        self.change(|faults| faults.cuts += 1);
    }

    /// New connections are taken and reset at once; those that are open stay.
    pub fn refuse(&self, refuse: bool) {
        self.change(|faults| faults.refuse = refuse);
    }

    /// Bytes and ends of connections vanish, the sockets stay open. A stream that has lost bytes cannot go on:
    /// when the black hole ends, connections that lost some are reset. See [`Self::stall`] for an
    /// interruption after which TCP would go on.
    pub fn blackhole(&self, direction: Direction, on: bool) {
        self.change(|faults| faults.change(direction, |way| way.black = on));
    }

    /// Bytes stay where they are until this is taken back, then they all arrive.
    pub fn stall(&self, direction: Direction, on: bool) {
        self.change(|faults| faults.change(direction, |way| way.stalled = on));
    }

    /// Every connection that is open now passes no byte any more, for good, and stays open: the other side's
    /// machine is gone without a word. New connections work.
    pub fn strand(&self) {
        self.change(|faults| faults.strandings += 1);
    }

    /// Ends this direction of every connection that is open now, in an orderly way; the other goes on.
    pub fn half_close(&self, direction: Direction) {
        self.change(|faults| faults.change(direction, |way| way.half_closes += 1));
    }

    /// Removes notifications (of `LISTEN`) from what the server sends.
    pub fn swallow_notifications(&self, on: bool) {
        self.change(|faults| faults.swallow_notifications = on);
    }

    /// Cuts connections exactly around commits; see [`CommitCuts`]. Transactions that are open already do not
    /// count.
    pub fn cut_commits(&self, cuts: Option<CommitCuts>) {
        self.change(|faults| faults.commit_cuts = cuts.map(Arc::new));
    }

    /// Where new connections go. Those that are open stay with the old server; see [`Self::cut_all`].
    pub fn retarget(&self, upstream: SocketAddr) {
        self.change(|faults| faults.upstream = upstream);
    }
}
