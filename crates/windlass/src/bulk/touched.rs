/// How many jobs were touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Touched {
    /// Jobs that the filter selected.
    pub selected: u64,
    /// Of these, jobs that were cancelled, retried, edited or deleted. In a dry run, as the others here, those of which that would become.
    pub done: u64,
    /// Jobs whose workers were asked to stop them: each ends as cancelled, or as what its handler makes of it.
    pub asked: u64,
    /// Jobs that were not edited because their args are encrypted, and the edit sets args.
    pub encrypted: u64,
    /// Jobs that had moved on meanwhile, so that nothing was to be done; or that expire before the edit would have them due, or have used the attempts that it would give them.
    pub left: u64,
    /// Nothing was changed.
    pub dry_run: bool,
}
