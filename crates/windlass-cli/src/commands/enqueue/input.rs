use crate::failure::{Failure, Outcome};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
};
use windlass::Args;

/// The longest line or args text that is read: twice the largest args, for escapes and the other fields.
pub(super) const MAX_BYTES: u64 = 2 * 1024 * 1024;

/// Opens a file, or stdin for `-`.
pub(super) fn open(path: &str) -> Outcome<Box<dyn BufRead>> {
    if path == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path)
        .map_err(|error| Failure::usage("invalid_input", format!("cannot read file {path:?}: {error}")))?;
    Ok(Box::new(BufReader::new(file)))
}

/// The args in a text. A shell takes quotes away that are not between others.
pub(crate) fn args(text: &str) -> Outcome<Args> {
    Args::parse(text).map_err(|error| {
        let hint = match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Err(_) => r#"; write them between single quotes, as in '{"to": "anna"}'"#,
            Ok(_) => "",
        };
        Failure::from(error).explain(|message| message + hint)
    })
}

/// Reads one job's args whole.
pub(super) fn read_args(path: &str) -> Outcome<String> {
    let mut bytes = Vec::new();
    let unreadable = |error: io::Error| {
        Failure::usage("invalid_input", format!("cannot read args from {path:?}: {error}"))
    };
    open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        let message =
            format!("args from {path:?} are longer than {MAX_BYTES} bytes; pass a reference instead");
        return Err(Failure::usage("invalid_args", message));
    }
    String::from_utf8(bytes)
        .map_err(|error| Failure::usage("invalid_args", format!("args from {path:?} are not UTF-8: {error}")))
}

/// Reads the next line without its end. `None` at the end of the input.
pub(super) fn next_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> Outcome<Option<()>> {
    line.clear();
    let unreadable = |error: io::Error| Failure::usage("invalid_input", format!("cannot read: {error}"));
    if input.take(MAX_BYTES + 1).read_until(b'\n', line).map_err(unreadable)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    if line.len() as u64 > MAX_BYTES {
        return Err(Failure::usage("invalid_input", format!("longer than {MAX_BYTES} bytes")));
    }
    Ok(Some(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_and_are_bounded() {
        let mut line = Vec::new();
        let mut input: &[u8] = b"a\n\nb";
        for expected in ["a", "", "b"] {
            assert!(next_line(&mut input, &mut line).unwrap().is_some());
            assert_eq!(line, expected.as_bytes());
        }
        assert!(next_line(&mut input, &mut line).unwrap().is_none());
        let endless = vec![b'x'; MAX_BYTES as usize + 10];
        assert!(next_line(&mut &endless[..], &mut line).is_err());
    }
}
