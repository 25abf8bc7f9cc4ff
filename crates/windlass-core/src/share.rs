use crate::{QueueLimits, Starts, WorkerId};
use std::{sync::Arc, time::Duration};

/// What a worker would like of [limited](QueueLimits) queues.
#[derive(Clone, Debug)]
pub struct ShareRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// How many calls of this worker failed before. What they sent may still arrive when its connection is long gone, and
    /// changes nothing then.
    pub generation: u32,
    /// Each queue once.
    pub queues: Vec<QueueNeed>,
}

/// What a worker would like of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueNeed {
    /// The queue.
    pub queue: Arc<str>,
    /// How many of its jobs the worker runs now, under this registration.
    pub running: u32,
    /// How many it would run at once if it could, those included. 0: it has no use for the queue now.
    pub slots: u32,
    /// Those that it could start at once now, because it holds them.
    pub starts: Starts,
}

impl QueueNeed {
    /// What is left of it while nothing may start.
    #[must_use]
    pub fn of_what_runs(&self) -> Self {
        let slots = self.slots.min(self.running);
        Self { slots, starts: Starts::default(), ..self.clone() }
    }
}

/// What a worker may do with one queue, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The limits of the queue; without any it may do what it likes.
    pub limits: QueueLimits,
    /// How many it may run at once; `None` where nothing limits that. Its until it asks for fewer, or its lease ends.
    pub slots: Option<u32>,
    /// Others wait for slots, and it has had more than its share for a while: it should ask again when some of its jobs are over.
    pub wanted: bool,
    /// How many permissions to start it has, to be used within [`RateLimit::grace`](crate::RateLimit::grace) from when it asked: what the first of the
    /// jobs that it asked for cost, as many as fit. `None` where nothing limits that.
    pub starts: Option<u32>,
    /// When to ask again where that was not for all of them: the next may start then.
    pub next_start: Option<Duration>,
    /// The queue has limits and is paused: nothing may start until it is resumed, and what was not started goes back. There are slots for what runs, and no starts.
    pub paused: bool,
}

impl Share {
    /// Of a queue without limits.
    pub const UNLIMITED: Self = Self {
        limits: QueueLimits { concurrency: None, rate: None },
        slots: None,
        wanted: false,
        starts: None,
        next_start: None,
        paused: false,
    };
}
