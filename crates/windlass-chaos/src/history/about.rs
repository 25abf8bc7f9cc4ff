use super::What;

impl What {
    /// The job that this is about, by the store's id.
    pub fn job(&self) -> Option<i64> {
        let mut copy = *self;
        copy.job_mut().copied()
    }

    /// The registration that this is about.
    pub fn worker(&self) -> Option<i32> {
        let mut copy = *self;
        copy.worker_mut().copied()
    }

    pub(crate) fn job_mut(&mut self) -> Option<&mut i64> {
        match self {
            Self::EnqueueAcked { id, .. }
            | Self::Kept { id, .. }
            | Self::Replaced { id, .. }
            | Self::Extended { id, .. }
            | Self::PutOff { id, .. }
            | Self::Returned { id, .. }
            | Self::Resumed { id, .. }
            | Self::CheckpointSent { id, .. }
            | Self::CheckpointKept { id, .. }
            | Self::DeleteAsked { id, .. }
            | Self::StoredResult { id, .. }
            | Self::RolledBack { id, .. }
            | Self::Claimed { id, .. }
            | Self::Started { id, .. }
            | Self::Finished { id, .. }
            | Self::GivenBack { id, .. }
            | Self::Settled { id, .. }
            | Self::CancelAsked { id, .. }
            | Self::RetryAsked { id, .. }
            | Self::EffectSent { id, .. }
            | Self::Effect { id }
            | Self::Ran { id, .. }
            | Self::Waited { id, .. }
            | Self::Expired { id }
            | Self::Stored { id, .. } => Some(id),
            Self::Suspected { id, .. } => id.as_mut(),
            _ => None,
        }
    }

    pub(crate) fn worker_mut(&mut self) -> Option<&mut i32> {
        match self {
            Self::Registered { worker, .. }
            | Self::Claimed { worker, .. }
            | Self::Started { worker, .. }
            | Self::Finished { worker, .. }
            | Self::GivenBack { worker, .. }
            | Self::Settled { worker, .. }
            | Self::EffectSent { worker, .. }
            | Self::Returned { worker, .. }
            | Self::Resumed { worker, .. }
            | Self::CheckpointSent { worker, .. }
            | Self::CheckpointKept { worker, .. }
            | Self::LeaseLost { worker }
            | Self::DeregisterSent { worker }
            | Self::Rescued { worker, .. }
            | Self::Suspected { worker, .. } => Some(worker),
            _ => None,
        }
    }

    /// The number that the job's producer gave it, where this tells both it and the job's id.
    pub(crate) fn key(&self) -> Option<i64> {
        match *self {
            Self::EnqueueAcked { key, .. }
            | Self::RolledBack { key, .. }
            | Self::Started { key, .. }
            | Self::Stored { key, .. } => Some(key),
            _ => None,
        }
    }
}
