//! Workers over HTTP, as they meet the server.

mod broken;
mod elsewhere;
mod fencing;
mod limits;
mod outcomes;
mod reports;
mod timeouts;
mod waiting;

use super::site::{Answer, Site};
use crate::Role;
use serde_json::{Value, json};
use windlass::{JobId, JobState};

impl Site {
    /// Asks as a worker.
    async fn work(&self, method: &str, path: &str, body: Value) -> Answer {
        self.work_as(Role::Worker, method, path, body).await
    }

    async fn work_as(&self, role: Role, method: &str, path: &str, body: Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let bearer = format!("Bearer {}", self.token(role));
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        self.send_text(method, &format!("/work/v1/workers{path}"), &headers, text).await
    }

    pub(super) async fn register(&self, body: Value) -> String {
        let answer = self.work("POST", "", body).await.is(201);
        assert_eq!(answer["protocol"], 1);
        answer["worker"].as_str().unwrap().to_owned()
    }

    pub(super) async fn turn(&self, worker: &str, body: Value) -> Value {
        self.work("POST", &format!("/{worker}/turn"), body).await.is(200)
    }

    /// Takes turns until one brings jobs.
    pub(super) async fn jobs(&self, worker: &str) -> Vec<Value> {
        for _ in 0..4 {
            let turn = self.turn(worker, json!({ "wait_s": 30 })).await;
            let jobs = turn["jobs"].as_array().unwrap();
            if !jobs.is_empty() {
                return jobs.clone();
            }
        }
        panic!("no job for {worker}")
    }

    async fn state(&self, id: JobId) -> JobState {
        self.client.job(id).await.unwrap().unwrap().state
    }
}

pub(super) fn done(job: &Value, outcome: &str) -> Value {
    json!({ "receipt": job["receipt"], "outcome": outcome })
}
