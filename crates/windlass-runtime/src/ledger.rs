use crate::{batch::Batches, epoch::ClaimScope, open_claim::OpenClaim};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use windlass_core::{ClaimedJob, Disposition};

/// The open claims of one queue: which of their jobs finished, and how, since the last settlement.
///
/// A plain data structure behind the pool's lock. Executors mark jobs, the settler
/// [collects](Self::collect) what is worth a settlement.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    slots: Vec<Option<OpenClaim>>,
    free: Vec<u32>,
    /// Claims with something to settle, or to drop, in the order in which they got it.
    dirty: Vec<u32>,
    /// Finished jobs that no settlement was sent for.
    unsettled: usize,
}

/// How eagerly to settle claims that are only partly finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eagerness {
    /// Those that were so in the round before: under load the others will soon be finished as a whole.
    Patient,
    /// All whose remaining jobs run already: there is nothing else to do.
    Eager,
    /// All.
    Flush,
}

/// What the ledger has to know to decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) number: u64,
    pub(crate) now: Instant,
    pub(crate) eagerness: Eagerness,
    /// Jobs of the queue per second.
    pub(crate) rate: f64,
    /// How long a finished job may wait for the rest of its claim while that moves fast.
    pub(crate) patience: Duration,
}

impl Ledger {
    /// Enters a claim. The slot names it until all its jobs finished.
    pub(crate) fn open(&mut self, scope: Arc<ClaimScope>, jobs: &[ClaimedJob]) -> u32 {
        scope.epoch.claim_opened();
        let claim = Some(OpenClaim::new(scope, jobs));
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = claim;
            return slot;
        }
        self.slots.push(claim);
        self.slots.len() as u32 - 1
    }

    /// The job at `index` of the claim began. Returns nothing: it only tells moving claims from stuck ones.
    pub(crate) fn started(&mut self, slot: u32) {
        if let Some(claim) = &mut self.slots[slot as usize] {
            claim.started();
        }
    }

    /// The job at `index` of the claim completed. Whether the whole claim is finished now.
    pub(crate) fn complete(&mut self, slot: u32, index: u32) -> bool {
        self.finish(slot, |claim| claim.complete(index))
    }

    /// The job at `index` of the claim did not simply complete. Whether the whole claim is finished now.
    pub(crate) fn except(&mut self, slot: u32, index: u32, position: i64, fate: Disposition) -> bool {
        self.finish(slot, |claim| claim.except(index, position, fate))
    }

    fn finish(&mut self, slot: u32, mark: impl FnOnce(&mut OpenClaim)) -> bool {
        let Some(claim) = &mut self.slots[slot as usize] else { return false };
        mark(claim);
        self.unsettled += 1;
        if claim.note_dirty() {
            self.dirty.push(slot);
        }
        claim.is_finished()
    }

    /// The last `count` jobs of the claim will not run here and are not settled either.
    pub(crate) fn forget(&mut self, slot: u32, count: u32) {
        let Some(claim) = &mut self.slots[slot as usize] else { return };
        claim.forget(count);
        if claim.note_dirty() {
            self.dirty.push(slot);
        }
    }

    /// Moves what is worth a settlement into `batches`, until they are full. Whether something was left
    /// for later.
    pub(crate) fn collect(&mut self, round: &Round, batches: &mut Batches) -> bool {
        let mut kept = 0;
        for at in 0..self.dirty.len() {
            let slot = self.dirty[at];
            let Some(claim) = &mut self.slots[slot as usize] else { continue };
            if batches.is_full() || !claim.is_due(round) {
                self.dirty[kept] = slot;
                kept += 1;
                continue;
            }
            self.unsettled -= claim.unsettled();
            claim.take(batches);
            if claim.is_finished() {
                self.slots[slot as usize] = None;
                self.free.push(slot);
            }
        }
        self.dirty.truncate(kept);
        kept > 0
    }

    /// Whether anything waits to be settled.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// How many finished jobs no settlement was sent for.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled
    }
}
