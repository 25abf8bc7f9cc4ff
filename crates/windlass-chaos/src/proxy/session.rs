//! One connection through the proxy, all in one task: two readers and two writers.

use super::{
    CutPoint, Shared,
    faults::{Faults, Way},
    framer::{Framer, HEAD, Piece},
    lost::Lost,
    outbound::{Chunk, End, Lateness, QUEUE, changed_until, write},
    reset,
    tracker::{Answer, Meaning, Tracker},
};
use bytes::BytesMut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::{
    io::AsyncReadExt,
    net::{TcpStream, tcp::ReadHalf},
    sync::{mpsc, watch},
};

/// Room for one read.
const READ: usize = 32 * 1024;

struct Session {
    shared: Arc<Shared>,
    /// The faults when the connection was made.
    born: Faults,
    tracker: Mutex<Tracker>,
    lost: Lost,
    seed: u64,
}

/// What a reader does with what it has read.
#[derive(Default)]
struct Verdict {
    forward: BytesMut,
    /// The connection ends when those bytes are written.
    then: Option<End>,
    /// Nothing more is read.
    is_last: bool,
}

pub(super) async fn run(mut client: TcpStream, shared: Arc<Shared>, number: u64) {
    let counters = Arc::clone(&shared);
    let _open = counters.counters.connected();
    let mut faults = shared.faults.subscribe();
    let born = faults.borrow_and_update().clone();
    let (upstream, cuts) = (born.upstream, born.cuts);
    let connected = tokio::select! {
        () = changed_until(&mut faults, |now| now.cuts != cuts) => None,
        connected = TcpStream::connect(upstream) => connected.ok(),
    };
    let Some(mut server) = connected else { return reset(&client) };
    let (_, _) = (client.set_nodelay(true), server.set_nodelay(true));
    let seed = shared.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let session =
        Session { born, seed, tracker: Mutex::default(), lost: Lost::new(Arc::clone(&shared)), shared };
    let end = Box::pin(session.pass_on(&mut client, &mut server, faults)).await;
    if end.is_err() {
        reset(&client);
        reset(&server);
    }
    if end == Err(End::Cut) {
        counters.counters.cut();
    }
}

impl Session {
    async fn pass_on(
        &self,
        client: &mut TcpStream,
        server: &mut TcpStream,
        faults: watch::Receiver<Faults>,
    ) -> Result<(), End> {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let (up, up_queue) = mpsc::channel(QUEUE);
        let (down, down_queue) = mpsc::channel(QUEUE);
        let half_closes = |way| self.born.of(way).half_closes;
        let mut watched = faults.clone();
        tokio::select! {
            biased;
            () = changed_until(&mut watched, |now| self.must_end(now)) => Err(End::Cut),
            end = async {
                tokio::try_join!(
                    self.read(Way::Up, from_client, up, faults.clone()),
                    write(Way::Up, &self.lost, half_closes(Way::Up), to_server, up_queue, faults.clone()),
                    self.read(Way::Down, from_server, down, faults.clone()),
                    write(Way::Down, &self.lost, half_closes(Way::Down), to_client, down_queue, faults.clone()),
                )
            } => end.map(drop),
        }
    }

    /// After `cut_all`, and when a black hole has ended that took bytes of this connection.
    fn must_end(&self, now: &Faults) -> bool {
        let is_gap = |way| self.lost.has(way) && !now.of(way).black;
        now.cuts != self.born.cuts || is_gap(Way::Up) || is_gap(Way::Down)
    }

    async fn read(
        &self,
        way: Way,
        mut source: ReadHalf<'_>,
        queue: mpsc::Sender<Chunk>,
        mut faults: watch::Receiver<Faults>,
    ) -> Result<(), End> {
        let mut framer = Framer::new(way);
        let mut buffer = BytesMut::new();
        let mut lateness = Lateness::new(self.seed ^ u64::from(way == Way::Down));
        loop {
            buffer.reserve(READ);
            let read = source.read_buf(&mut buffer).await.unwrap_or(0);
            let stranded = self.born.strandings;
            changed_until(&mut faults, |now| !now.of(way).stalled && now.strandings == stranded).await;
            let now = faults.borrow_and_update().clone();
            if now.of(way).black || self.lost.has(way) {
                self.lost.lose(way, read);
                buffer.clear();
            }
            let verdict = match (way, self.lost.has(way)) {
                (_, true) => Verdict::default(),
                (_, false) if read == 0 => Verdict { forward: buffer.split(), ..Verdict::default() },
                (Way::Up, _) => self.judge_client(&mut framer, &mut buffer, &now),
                (Way::Down, _) => self.judge_server(&mut framer, &mut buffer, &now),
            };
            if !verdict.forward.is_empty() || verdict.then.is_some() {
                let due = lateness.due(now.delay, now.jitter);
                let chunk = Chunk { bytes: verdict.forward, due, then: verdict.then };
                queue.send(chunk).await.map_err(|_| End::Broken)?;
            }
            if verdict.is_last {
                std::future::pending::<()>().await;
            }
            if read == 0 {
                // The server is gone before its answer to a commit came: the client's side is not read any more.
                let is_cut = way == Way::Down && self.tracker().keeps_back();
                return if is_cut { Err(End::Cut) } else { Ok(()) };
            }
        }
    }

    fn judge_client(&self, framer: &mut Framer, buffer: &mut BytesMut, now: &Faults) -> Verdict {
        let mut tracker = self.tracker();
        let mut verdict = Verdict::default();
        loop {
            if tracker.is_opaque {
                verdict.forward.unsplit(buffer.split());
                return verdict;
            }
            let Some((piece, bytes)) = framer.next(buffer, false) else { return verdict };
            match piece {
                Piece::Untyped(code) => {
                    if tracker.untyped(code) {
                        framer.started();
                    }
                }
                Piece::Message(kind) => {
                    let cuts = now.commit_cuts.as_deref();
                    if tracker.client(kind, &bytes[HEAD.min(bytes.len())..], cuts) == Meaning::Commit {
                        let cut = cuts.and_then(super::CommitCuts::decide);
                        self.shared.counters.commit(cut.is_some());
                        if cut == Some(CutPoint::BeforeForward) {
                            return Verdict { then: Some(End::Cut), is_last: true, ..verdict };
                        }
                        tracker.armed = cut;
                    }
                    if let (Some(cut), b'Q' | b'S') = (tracker.armed, kind) {
                        verdict.forward.unsplit(bytes);
                        if cut == CutPoint::AfterForward {
                            tracker.keep_back();
                        }
                        let then = (cut == CutPoint::Racing).then_some(End::Cut);
                        return Verdict { then, is_last: true, ..verdict };
                    }
                }
                Piece::Unknown => tracker.is_opaque = true,
                Piece::Rest | Piece::Byte(_) => {}
            }
            verdict.forward.unsplit(bytes);
        }
    }

    fn judge_server(&self, framer: &mut Framer, buffer: &mut BytesMut, now: &Faults) -> Verdict {
        let mut tracker = self.tracker();
        let mut verdict = Verdict::default();
        loop {
            if tracker.is_opaque {
                verdict.forward.unsplit(buffer.split());
                return verdict;
            }
            let Some((piece, bytes)) = framer.next(buffer, tracker.expects_byte()) else {
                return verdict;
            };
            match tracker.server(&piece, &bytes[HEAD.min(bytes.len())..]) {
                Answer::KeptBackAndDone => return Verdict { then: Some(End::Cut), is_last: true, ..verdict },
                Answer::KeptBack => continue,
                Answer::Ordinary => {}
            }
            match piece {
                Piece::Byte(byte) => tracker.byte(byte),
                Piece::Unknown => tracker.is_opaque = true,
                Piece::Message(b'A') if now.swallow_notifications => {
                    self.shared.counters.swallowed();
                    continue;
                }
                _ => {}
            }
            verdict.forward.unsplit(bytes);
        }
    }

    fn tracker(&self) -> MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
