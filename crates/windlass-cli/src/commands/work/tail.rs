use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::io::{AsyncRead, AsyncReadExt};
use windlass::Limits;

/// How much of a program's stderr is kept: its end.
const MAX_TAIL: usize = 8 * 1024;
/// So near where it is cut the next line is looked for, or else the next word, so that none is cut in half.
const NEAR: usize = 256;

/// The end of what was read so far. Clones share it, so that it can be had before the input ends.
#[derive(Clone, Default)]
pub(super) struct Tail(Arc<Mutex<Kept>>);

#[derive(Clone, Default)]
struct Kept {
    end: VecDeque<u8>,
    /// How many bytes stood before it.
    left_out: u64,
}

impl Tail {
    /// Reads all of the input and keeps its end.
    pub(super) async fn read(self, mut input: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; MAX_TAIL];
        while let Ok(count @ 1..) = input.read(&mut chunk).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.end.extend(&chunk[..count]);
            let surplus = kept.end.len().saturating_sub(MAX_TAIL);
            kept.end.drain(..surplus);
            kept.left_out += surplus as u64;
        }
    }

    /// The end, as text. One that was cut says so at its beginning: whoever shows errors without secrets must know that the end of one may stand there.
    pub(super) fn text(&self) -> String {
        let Kept { mut end, left_out } = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let end = &*end.make_contiguous();
        if left_out == 0 {
            return String::from_utf8_lossy(end).into_owned();
        }
        let begins = whole_from(end);
        let text = String::from_utf8_lossy(&end[begins..]);
        format!("{} {text}", Limits::left_out(left_out + begins as u64))
    }
}

/// Where the first whole line begins; where that is far away, the first whole word, or else the first character.
fn whole_from(cut: &[u8]) -> usize {
    let near = &cut[..NEAR.min(cut.len())];
    let line = near.iter().position(|byte| *byte == b'\n');
    let word = || near.iter().position(u8::is_ascii_whitespace);
    let halves = || cut.iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
    line.or_else(word).map_or_else(halves, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tail_of(input: impl AsRef<[u8]>) -> String {
        let tail = Tail::default();
        tail.clone().read(input.as_ref()).await;
        tail.text()
    }

    #[tokio::test]
    async fn only_the_end_is_kept_and_says_so() {
        let text = tail_of(format!("{}end", "ä".repeat(MAX_TAIL))).await;
        let left_out = Limits::left_out(MAX_TAIL as u64 + 4);
        let kept = text.strip_prefix(&format!("{left_out} ")).expect(&text);
        assert!(kept.ends_with("äend") && kept.starts_with('ä') && kept.len() <= MAX_TAIL, "{text}");
        assert_eq!(tail_of(b"a\xffb").await, "a\u{fffd}b");
        let whole = "x".repeat(MAX_TAIL);
        assert_eq!(tail_of(&whole).await, whole);
    }

    #[tokio::test]
    async fn it_begins_with_a_whole_line_or_word() {
        for (begins, kept) in [
            ("half a line\nbut one", "but one"),
            ("half a-word\tand", "a-word\tand"),
            (&*format!("half a {}\nline", "x".repeat(NEAR)), &*format!("a {}\nline", "x".repeat(NEAR))),
        ] {
            let rest = "x".repeat(MAX_TAIL - begins.len());
            let left_out = Limits::left_out(9 + (begins.len() - kept.len()) as u64);
            assert_eq!(tail_of(format!("123456789{begins}{rest}")).await, format!("{left_out} {kept}{rest}"));
        }
    }
}
