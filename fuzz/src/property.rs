//! Runs a fuzz body on stable: on its seed inputs, and on a fixed number of generated ones.

use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed, TestError, TestRunner},
};
use std::{fs, path::Path};

/// The most pieces of one generated input.
const PIECES: usize = 48;
/// The most bytes of one that is not made of words.
const MOST_BYTES: usize = 600;

/// Feeds `body` every file of `fuzz/seeds/<target>` and then `cases` inputs made of the words of the target's
/// language and of any bytes, without words of any bytes only. WINDLASS_FUZZ_SEED and WINDLASS_FUZZ_CASES replace the seed and the number.
pub fn check(target: &str, words: &[&str], cases: u32, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut seeds = 0;
    for entry in fs::read_dir(&folder).expect("the target has seed inputs") {
        body(&fs::read(entry.expect("listed").path()).expect("readable"));
        seeds += 1;
    }
    assert!(seeds > 0, "{} is empty", folder.display());
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("WINDLASS_FUZZ_SEED").unwrap_or(20_260_101);
    let cases = number("WINDLASS_FUZZ_CASES").map_or(cases, |cases| cases as u32);
    println!("{target}: {seeds} seed inputs, {cases} cases from WINDLASS_FUZZ_SEED={seed}");
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let mut runner = TestRunner::new(Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    });
    let outcome = runner.run(&input(words), |bytes| {
        body(&bytes);
        Ok(())
    });
    if let Err(TestError::Fail(why, bytes)) = outcome {
        let text = String::from_utf8_lossy(&bytes);
        panic!("{target} fails with seed {seed}: {why}\nsmallest input: {text:?}\nits bytes: {bytes:?}");
    }
}

/// Words one after the other, now and then a run of the same word or of any bytes.
fn input(words: Vec<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    if words.is_empty() {
        return prop::collection::vec(any::<u8>(), 0..MOST_BYTES).boxed();
    }
    let word = prop::sample::select(words);
    let piece = prop_oneof![
        12 => word.clone(),
        2 => prop::collection::vec(any::<u8>(), 0..12),
        1 => (word, 1..80_usize).prop_map(|(word, times)| word.repeat(times)),
    ];
    let words = prop::collection::vec(piece, 0..PIECES).prop_map(|pieces| pieces.concat());
    prop_oneof![4 => words, 1 => prop::collection::vec(any::<u8>(), 0..MOST_BYTES)].boxed()
}
