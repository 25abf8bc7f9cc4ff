//! Where messages begin and end in a stream of bytes.

use super::faults::Way;
use bytes::{Buf, BytesMut};

/// Of a longer message only so much is looked at, and the rest is passed on as it comes.
pub(super) const INSPECTED: usize = 64 * 1024;
/// Type byte and length.
pub(super) const HEAD: usize = 5;
/// PostgreSQL sends and takes at most 1 GiB; whoever says more does not speak this protocol.
const MAX_LENGTH: u32 = 1 << 30;

/// What the next bytes are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A message without a type, the first ones of a client, with its code.
    Untyped(u32),
    /// A message, or the first [`INSPECTED`] bytes of one, with its type; the body begins at [`HEAD`].
    Message(u8),
    /// More of the message before.
    Rest,
    /// The answer to a request for encryption, one byte.
    Byte(u8),
    /// Not this protocol.
    Unknown,
}

/// Cuts one way of a connection into pieces. It keeps no bytes.
pub(super) struct Framer {
    /// Before a client has sent its startup message.
    is_untyped: bool,
    /// Bytes of the current message that are still to come.
    rest: usize,
}

impl Framer {
    pub(super) fn new(way: Way) -> Self {
        Self { is_untyped: way == Way::Up, rest: 0 }
    }

    /// The startup message is through: messages have types from now on.
    pub(super) fn started(&mut self) {
        self.is_untyped = false;
    }

    /// Takes the next piece from the buffer; `None` when it needs more bytes first.
    pub(super) fn next(&mut self, buffer: &mut BytesMut, expects_byte: bool) -> Option<(Piece, BytesMut)> {
        if buffer.is_empty() {
            return None;
        }
        if self.rest > 0 {
            let taken = buffer.split_to(self.rest.min(buffer.len()));
            self.rest -= taken.len();
            return Some((Piece::Rest, taken));
        }
        if expects_byte && !self.is_untyped && matches!(buffer[0], b'N' | b'S' | b'G') {
            return Some((Piece::Byte(buffer[0]), buffer.split_to(1)));
        }
        let head = if self.is_untyped { HEAD - 1 } else { HEAD };
        if buffer.len() < head {
            return None;
        }
        let length = (&buffer[head - 4..head]).get_u32();
        if !(4..=MAX_LENGTH).contains(&length) {
            return Some((Piece::Unknown, buffer.split()));
        }
        let length = length as usize + head - 4;
        let inspected = length.min(INSPECTED);
        if buffer.len() < inspected.max(if self.is_untyped { 8.min(length) } else { 0 }) {
            return None;
        }
        let taken = buffer.split_to(inspected);
        self.rest = length - inspected;
        let piece = match (self.is_untyped, taken.len()) {
            (true, ..8) => Piece::Unknown,
            (true, _) => Piece::Untyped((&taken[4..8]).get_u32()),
            (false, _) => Piece::Message(taken[0]),
        };
        Some((piece, taken))
    }
}

#[cfg(test)]
mod tests {
    use super::{Framer, INSPECTED, Piece};
    use crate::proxy::faults::Way;
    use bytes::{BufMut, BytesMut};

    fn message(kind: u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.put_u32(length as u32 + 4);
        bytes.resize(5 + length, b'x');
        bytes
    }

    /// Feeds bytes in portions of the given sizes and answers the pieces without [`Piece::Rest`].
    fn pieces(bytes: &[u8], mut portion: impl FnMut() -> usize) -> (Vec<Piece>, Vec<u8>) {
        let (mut framer, mut buffer) = (Framer::new(Way::Up), BytesMut::new());
        let (mut found, mut passed, mut at) = (Vec::new(), Vec::new(), 0);
        while at < bytes.len() {
            let next = (at + portion()).min(bytes.len());
            buffer.extend_from_slice(&bytes[at..next]);
            at = next;
            while let Some((piece, taken)) = framer.next(&mut buffer, false) {
                passed.extend_from_slice(&taken);
                if matches!(piece, Piece::Untyped(_)) {
                    framer.started();
                }
                if piece != Piece::Rest {
                    found.push(piece);
                }
            }
            assert!(buffer.len() < INSPECTED, "the buffer is bounded");
        }
        (found, passed)
    }

    #[test]
    fn messages_are_found_however_they_are_split() {
        let mut bytes = vec![0, 0, 0, 9, 0, 3, 0, 0, 0];
        for (kind, length) in [(b'Q', 7), (b'd', 300_000), (b'S', 0), (b'P', INSPECTED - 5), (b'X', 0)] {
            bytes.extend(message(kind, length));
        }
        let wanted: Vec<Piece> = [Piece::Untyped(196_608)]
            .into_iter()
            .chain(b"QdSPX".iter().map(|kind| Piece::Message(*kind)))
            .collect();
        let mut random = fastrand::Rng::with_seed(3);
        for most in [2, 6, 50, 5_000, 200_000, 1_000_000] {
            let (found, passed) = pieces(&bytes, || random.usize(1..most));
            assert_eq!(found, wanted, "portions below {most}");
            assert!(passed == bytes);
        }
    }
}
