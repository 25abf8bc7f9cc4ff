//! What only the tests of `windlass` do with it.

use crate::program::{Answer, Home};
use std::{io::Write, process::Stdio};

impl Home {
    /// A folder with a migrated store.
    pub(crate) fn new() -> Self {
        let home = Self::bare();
        home.run(&["migrate"]).done();
        home
    }

    /// Runs with text on stdin. A program that ends before it read all is fine.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Answer {
        let mut child = self.spawn(self.command(args).stdin(Stdio::piped()));
        let _ = child.stdin.take().expect("stdin").write_all(input);
        child.wait_with_output().expect("wait").into()
    }

    /// Enqueues and returns the id.
    pub(crate) fn enqueue(&self, args: &[&str]) -> String {
        self.run(&[&["enqueue"], args].concat()).done().stdout.trim().to_owned()
    }

    pub(crate) fn state(&self, id: &str) -> String {
        self.json(&["jobs", "show", id])["state"].as_str().expect("a state").to_owned()
    }
}
