use crate::epoch::Epoch;
use std::sync::Arc;
use tokio::sync::oneshot;
use windlass_core::SettleRequest;

/// A batch that reached one of these takes no further claim. The entries of one claim may exceed them, which is
/// bounded by the size of a claim.
const MAX_COMPLETIONS: usize = 1_000;
const MAX_RANGES: usize = 10_000;
const MAX_EXCEPTIONS: usize = 2_000;
/// Of results.
const MAX_BYTES: usize = 8 << 20;

/// What one settle call writes, and which claims it closes.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) epoch: Arc<Epoch>,
    pub(crate) request: SettleRequest,
    /// Jobs in the request.
    pub(crate) jobs: usize,
    /// Ranges of ids in the request.
    pub(crate) ranges: usize,
    /// Bytes of results in the request.
    pub(crate) bytes: usize,
    /// Claims that are settled to the end with it.
    pub(crate) closed_claims: usize,
    /// Executors that wait for it; dropping it wakes them, whatever became of it.
    pub(crate) waiters: Vec<oneshot::Sender<()>>,
}

/// One round of settlements: a batch per epoch, of which there is nearly always one.
#[derive(Debug, Default)]
pub(crate) struct Batches(Vec<Batch>);

impl Batches {
    /// The batch of an epoch.
    pub(crate) fn of(&mut self, epoch: &Arc<Epoch>) -> &mut Batch {
        let known = self.0.iter().position(|batch| Arc::ptr_eq(&batch.epoch, epoch));
        let at = known.unwrap_or_else(|| {
            self.0.push(Batch::new(epoch));
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.iter().any(Batch::is_full)
    }

    pub(crate) fn into_vec(self) -> Vec<Batch> {
        self.0
    }
}

impl Batch {
    fn new(epoch: &Arc<Epoch>) -> Self {
        let request = SettleRequest { worker: epoch.worker(), ..SettleRequest::default() };
        let epoch = Arc::clone(epoch);
        Self { epoch, request, jobs: 0, ranges: 0, bytes: 0, closed_claims: 0, waiters: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.request.completions.len() >= MAX_COMPLETIONS
            || self.request.exceptions.len() >= MAX_EXCEPTIONS
            || self.ranges >= MAX_RANGES
            || self.bytes >= MAX_BYTES
    }
}
