//! What has been read waits here until it may be written: delay, bandwidth, order.

use super::{
    faults::{Faults, Way},
    lost::Lost,
};
use bytes::BytesMut;
use std::time::Duration;
use tokio::{
    io::AsyncWriteExt,
    net::tcp::WriteHalf,
    sync::{mpsc, watch},
    time::Instant,
};

/// Chunks that wait, each of one read (at most 128 KiB).
pub(super) const QUEUE: usize = 64;
/// With a bandwidth, so many portions a second are written.
const PORTIONS: u64 = 50;

/// Why a connection ends before both sides have closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// One side is gone.
    Broken,
    /// We cut it.
    Cut,
}

/// Bytes on their way.
pub(super) struct Chunk {
    pub(super) bytes: BytesMut,
    pub(super) due: Instant,
    /// The connection ends after these bytes.
    pub(super) then: Option<End>,
}

/// When chunks are due: later than they came, and in order.
pub(super) struct Lateness {
    random: fastrand::Rng,
    last: Instant,
}

impl Lateness {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), last: Instant::now() }
    }

    pub(super) fn due(&mut self, delay: Duration, jitter: Duration) -> Instant {
        let due = Instant::now() + delay + jitter.mul_f64(self.random.f64());
        self.last = self.last.max(due);
        self.last
    }
}

/// Writes what comes out of the queue, and passes the end of it on. `half_closes`: how many there had been when the
/// connection was made.
pub(super) async fn write(
    way: Way,
    lost: &Lost,
    half_closes: u64,
    mut sink: WriteHalf<'_>,
    mut queue: mpsc::Receiver<Chunk>,
    mut faults: watch::Receiver<Faults>,
) -> Result<(), End> {
    let mut is_closed = false;
    loop {
        let chunk = tokio::select! {
            biased;
            () = changed_until(&mut faults, |now| now.of(way).half_closes != half_closes), if !is_closed => {
                is_closed = true;
                let _ = sink.shutdown().await;
                continue;
            }
            chunk = queue.recv() => chunk,
        };
        let Some(chunk) = chunk else { break };
        if chunk.due > Instant::now() {
            tokio::time::sleep_until(chunk.due).await;
        }
        if !is_closed && write_paced(&mut sink, &chunk.bytes, &faults).await.is_err() {
            if !faults.borrow().of(way.back()).black {
                return Err(End::Broken);
            }
            // The news that the peer is gone would have to come through the black hole.
            is_closed = true;
            lost.lose(way, 0);
        }
        if let Some(end) = chunk.then {
            return Err(end);
        }
    }
    if !is_closed && !lost.has(way) {
        let _ = sink.shutdown().await;
    }
    Ok(())
}

async fn write_paced(
    sink: &mut WriteHalf<'_>,
    mut bytes: &[u8],
    faults: &watch::Receiver<Faults>,
) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let Some(rate) = faults.borrow().bytes_per_second.map(|rate| rate.max(1)) else {
            return sink.write_all(bytes).await;
        };
        let portion = usize::try_from((rate / PORTIONS).max(1)).unwrap_or(usize::MAX).min(bytes.len());
        sink.write_all(&bytes[..portion]).await?;
        bytes = &bytes[portion..];
        tokio::time::sleep(Duration::from_secs_f64(portion as f64 / rate as f64)).await;
    }
    Ok(())
}

/// Waits until the faults are so; for ever when the proxy is gone, which ends the connection anyhow.
pub(super) async fn changed_until(faults: &mut watch::Receiver<Faults>, is_so: impl FnMut(&Faults) -> bool) {
    if faults.wait_for(is_so).await.is_err() {
        std::future::pending::<()>().await;
    }
}
