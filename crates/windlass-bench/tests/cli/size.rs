//! The scenario `size`, at a size that takes seconds: that every burden is there, and that nothing of it is left.

use crate::{
    points_of_size::check_points,
    program::{Home, eventually, signal},
};
use std::{fs, process::Stdio};

#[test]
fn every_burden_is_measured_and_removed() {
    let home = Home::bare();
    let url = format!("sqlite:{}", home.path().join("windlass.db").display());
    check_points(&home.json(&["run", "size", "--scale", "0.001", "--store", &url]));
    assert!(only_the_store_is_there(&home));
}

#[test]
fn an_interrupted_point_leaves_nothing() {
    let home = Home::bare();
    let url = format!("sqlite:{}", home.path().join("windlass.db").display());
    let args = ["size", "--burden", "waiting", "--store", &url];
    let child = home.spawn(home.command(&args).stdin(Stdio::null()));
    eventually("the burden is being made", || home.path().join("windlass.db.beside-wal").exists());
    signal(&child, "TERM");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    assert!(only_the_store_is_there(&home));
}

fn only_the_store_is_there(home: &Home) -> bool {
    let files =
        fs::read_dir(home.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    files.filter(|file| file.starts_with("windlass.db.")).count() == 0
}
