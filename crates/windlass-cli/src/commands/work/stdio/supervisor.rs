use super::{
    Shared,
    child::{Child, Ready},
    run::{End, work},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tracing::{info, warn};

/// How long to wait before a process that did nothing is started anew: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// Keeps one process running until the worker ends.
pub(super) async fn supervise(shared: Arc<Shared>, index: usize, ready: Ready, mut first: Option<Child>) {
    let mut closing = shared.closing.subscribe();
    let mut pause = PAUSE.0;
    loop {
        let started = match first.take() {
            Some(child) => Ok(child),
            None => tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return,
                started = Child::start(&shared, index, Some(&ready)) => started,
            },
        };
        let end = match started {
            Ok(child) => work(&shared, child).await,
            Err(why) => End { why: Some(why), worked: false },
        };
        if *closing.borrow() {
            return;
        }
        match end {
            End { why: None, worked: true } => {
                info!(process = index, "the process ended by itself between two jobs; starting another");
                continue;
            }
            End { why, worked } => {
                shared.died.fetch_add(1, Ordering::Relaxed);
                pause = if worked { PAUSE.0 } else { pause };
                let why = why.unwrap_or_else(|| "ended before its first job".to_owned());
                warn!(process = index, "the process {why}; starting another in {pause:?}");
            }
        }
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(PAUSE.1);
    }
}
