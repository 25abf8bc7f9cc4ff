use crate::{job::Said, settle::is_holder, state::State};
use windlass_core::{HandlerReport, JobReport, JobState, ReportRequest, Reported, Result, WorkerId};

/// Keeps what is new of the jobs that the worker holds.
pub(crate) fn report(state: &mut State, request: &ReportRequest) -> Result<Vec<Reported>> {
    state.fence(request.worker)?;
    Ok(request.reports.iter().map(|report| report_one(state, request.worker, report)).collect())
}

fn report_one(state: &mut State, worker: WorkerId, new: &JobReport) -> Reported {
    let now = state.now();
    let holds = is_holder(state, worker, new.claim);
    let Some(job) = state.jobs.get_mut(&new.job) else { return Reported::Refused };
    let held = job.held.is_some_and(|held| held.claim == new.claim && held.order == new.position);
    if !holds || !held || job.place.state() != JobState::Running {
        return Reported::Refused;
    }
    let said = job
        .said
        .get_or_insert_with(|| Box::new(Said { report: HandlerReport::new(now), last: (new.claim, 0) }));
    let is_new = said.last.0 != new.claim || said.last.1 < new.number;
    if is_new {
        said.last = (new.claim, new.number);
        said.report.add(new, now);
    }
    Reported::Accepted
}
