use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much of a program's stderr is kept: its end.
const MAX_TAIL: usize = 8 * 1024;

/// The end of what was read so far. Clones share it, so that it can be had before the input ends.
#[derive(Clone, Default)]
pub(super) struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    /// Reads all of the input and keeps its end.
    pub(super) async fn read(self, mut input: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; MAX_TAIL];
        while let Ok(count @ 1..) = input.read(&mut chunk).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(&chunk[..count]);
            let surplus = kept.len().saturating_sub(MAX_TAIL);
            kept.drain(..surplus);
        }
    }

    /// The end, as text. A character that was cut in half at the start is left out.
    pub(super) fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if kept.len() == MAX_TAIL {
            let halves = kept.iter().take_while(|&&byte| byte & 0xc0 == 0x80).count();
            kept.drain(..halves);
        }
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_end_is_kept() {
        let tail = Tail::default();
        let input = format!("{}end", "ä".repeat(MAX_TAIL));
        tail.clone().read(input.as_bytes()).await;
        let text = tail.text();
        assert!(text.ends_with("äend") && text.starts_with('ä') && text.len() <= MAX_TAIL, "{text}");
        let short = Tail::default();
        short.clone().read(&b"a\xffb"[..]).await;
        assert_eq!(short.text(), "a\u{fffd}b");
    }
}
