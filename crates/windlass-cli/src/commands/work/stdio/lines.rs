use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::mpsc,
};

/// The longest line: more than a result may have.
pub(super) const MAX_LINE: usize = 4 << 20;
const CHUNK: usize = 64 << 10;

/// What is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(Vec<u8>),
    /// Longer than [`MAX_LINE`]; nothing is read after it.
    TooLong,
}

/// Reads lines to the end of the input. The last one need not end in a line break.
pub(super) async fn read(mut input: impl AsyncRead + Unpin, lines: mpsc::Sender<Line>) {
    let (mut chunk, mut line) = (vec![0; CHUNK], Vec::new());
    while let Ok(count @ 1..) = input.read(&mut chunk).await {
        let mut rest = &chunk[..count];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            if line.len() > MAX_LINE {
                break;
            }
            if lines.send(Line::Text(std::mem::take(&mut line))).await.is_err() {
                return;
            }
        }
        line.extend_from_slice(rest);
        if line.len() > MAX_LINE {
            let _ = lines.send(Line::TooLong).await;
            return;
        }
    }
    if !line.is_empty() {
        let _ = lines.send(Line::Text(line)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8]) -> Vec<Line> {
        let (sender, mut receiver) = mpsc::channel(100);
        read(input, sender).await;
        let mut lines = Vec::new();
        while let Some(line) = receiver.recv().await {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_are_split_and_bounded() {
        let text = |line: &str| Line::Text(line.as_bytes().to_vec());
        assert_eq!(lines(b"a\n\nb").await, [text("a"), text(""), text("b")]);
        assert_eq!(lines(b"").await, []);
        let long = "x".repeat(MAX_LINE);
        assert_eq!(lines(format!("{long}\na").as_bytes()).await, [text(&long), text("a")]);
        assert_eq!(lines(format!("a\n{long}x\nb").as_bytes()).await, [text("a"), Line::TooLong]);
        assert_eq!(lines(format!("{long}x").as_bytes()).await, [Line::TooLong]);
    }
}
