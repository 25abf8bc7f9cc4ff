use super::task::{Answer, Task};
use crate::child_process::command;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};
use windlass_cli::failure::{Failure, Outcome};

/// The argument that makes a process the one of a burden.
const BURDEN_PROCESS: &str = "burden-process";

/// A burden that lies on a store, and the process that holds it there.
pub(crate) struct Carried {
    child: Child,
    /// How long it took to make it.
    pub(crate) seconds: f64,
}

impl Carried {
    /// Makes it. Some burdens are gone with the process, the jobs of others stay.
    pub(crate) async fn put(task: &Task) -> Outcome<Self> {
        let mut child = Command::from(command(BURDEN_PROCESS)?).kill_on_drop(true).spawn()?;
        let line = serde_json::to_string(task).map_err(|error| broken(&error.to_string()))? + "\n";
        let (Some(stdin), Some(stdout)) = (child.stdin.as_mut(), child.stdout.take()) else {
            return Err(broken("it has no pipes"));
        };
        stdin.write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        BufReader::new(stdout).read_line(&mut answer).await?;
        match serde_json::from_str(&answer) {
            Ok(Answer::Ready { seconds }) => Ok(Self { child, seconds }),
            Ok(Answer::Failed(why)) => Err(broken(&why)),
            Err(_) => Err(broken("it ended early")),
        }
    }

    /// Takes away what is gone with the process, and waits for that.
    pub(crate) async fn release(mut self) -> Outcome {
        // The end of what it reads tells it to stop.
        drop(self.child.stdin.take());
        self.child.wait().await?;
        Ok(())
    }
}

fn broken(why: &str) -> Failure {
    Failure::failed("burden_process", format!("the process that makes the burden failed: {why}"))
}
