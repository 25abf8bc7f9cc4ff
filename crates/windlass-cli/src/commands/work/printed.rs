//! What a program printed on stdout, as the result of its job.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt};
use windlass::{Args, Limits};

/// One byte more than a result may have: the engine says that it is too large.
const MOST: usize = Limits::MAX_RESULT_BYTES + 1;

/// The beginning of what was read so far. Clones share it, so that it can be had before the input ends.
#[derive(Clone, Default)]
pub(super) struct Printed(Arc<Mutex<Vec<u8>>>);

impl Printed {
    /// Reads all of the input and keeps its beginning.
    pub(super) async fn read(self, mut input: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 8 * 1024];
        while let Ok(count @ 1..) = input.read(&mut chunk).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let room = MOST - kept.len();
            kept.extend(&chunk[..count.min(room)]);
        }
    }

    /// JSON as it is, anything else as a string, nothing as none. No store keeps a NUL: each becomes U+FFFD.
    pub(super) fn result(&self) -> Option<Args> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        match text.trim() {
            "" => None,
            text => Args::parse(text).or_else(|_| Args::of(&text.replace('\0', "\u{fffd}"))).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn result(printed: &[u8]) -> Option<String> {
        let whole = Printed::default();
        whole.clone().read(printed).await;
        whole.result().map(|result| result.as_str().to_owned())
    }

    #[tokio::test]
    async fn json_is_taken_as_it_is_and_text_as_a_string() {
        assert_eq!(result(b" \n").await, None);
        assert_eq!(result(b"{\"n\": 1}\n").await.as_deref(), Some("{\"n\": 1}"));
        assert_eq!(result(b"done, \"well\"\n").await.as_deref(), Some(r#""done, \"well\"""#));
        assert_eq!(result(b"1e400").await.as_deref(), Some(r#""1e400""#), "no handler could read the number");
        assert_eq!(result(b"a\0b").await.as_deref(), Some("\"a\u{fffd}b\""));
        assert_eq!(result(b"a\xff").await.as_deref(), Some("\"a\u{fffd}\""));
        let large = result("x".repeat(3 * 1024 * 1024).as_bytes()).await.unwrap();
        assert_eq!(large.len(), MOST + 2);
    }
}
