use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a proxy has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections taken, without those refused.
    pub connections: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Connections closed at once.
    pub refused: u64,
    /// Connections cut: by `cut_all`, around a commit, or because they had lost bytes.
    pub cuts: u64,
    /// Commits that were counted for [`super::CommitCuts`].
    pub commits_seen: u64,
    /// Commits that were cut.
    pub commits_cut: u64,
    /// Notifications removed.
    pub swallowed: u64,
    /// Bytes that went into a black hole.
    pub lost_bytes: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    connections: AtomicU64,
    ended: AtomicU64,
    refused: AtomicU64,
    cuts: AtomicU64,
    commits_seen: AtomicU64,
    commits_cut: AtomicU64,
    swallowed: AtomicU64,
    lost_bytes: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> Counts {
        let ended = self.ended.load(Relaxed); // before the others, so that `open` is never below zero
        let connections = self.connections.load(Relaxed);
        Counts {
            connections,
            open: connections.saturating_sub(ended),
            refused: self.refused.load(Relaxed),
            cuts: self.cuts.load(Relaxed),
            commits_seen: self.commits_seen.load(Relaxed),
            commits_cut: self.commits_cut.load(Relaxed),
            swallowed: self.swallowed.load(Relaxed),
            lost_bytes: self.lost_bytes.load(Relaxed),
        }
    }

    pub(super) fn connected(&self) -> Open<'_> {
        self.connections.fetch_add(1, Relaxed);
        Open(self)
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn cut(&self) {
        self.cuts.fetch_add(1, Relaxed);
    }

    pub(super) fn commit(&self, cut: bool) {
        self.commits_seen.fetch_add(1, Relaxed);
        self.commits_cut.fetch_add(cut.into(), Relaxed);
    }

    pub(super) fn swallowed(&self) {
        self.swallowed.fetch_add(1, Relaxed);
    }

    pub(super) fn lost(&self, bytes: usize) {
        self.lost_bytes.fetch_add(bytes as u64, Relaxed);
    }
}

/// Counts a connection as open until it is dropped.
pub(super) struct Open<'a>(&'a Counters);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}
