//! What programs write in the place of a character.

/// Reads one at the beginning of a text: the character, and how long what stands for it is.
pub(super) type Escape = fn(&str) -> Option<(char, usize)>;

/// Each sort by itself, with the sign that it begins with. Of two quotes each doubles its own, as in SQL and CSV.
pub(super) const SORTS: [(char, Escape); 5] =
    [('\\', backslash), ('%', percent), ('&', entity), ('\'', single_quote), ('"', double_quote)];

/// None is longer, in bytes: a character of four by `\x`.
pub(super) const LONGEST: usize = 16;

/// Whether a text that ends here, with what is none, may have been cut off within one.
pub(super) fn is_begun(rest: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"\\%&#{".contains(&byte);
    rest.len() < LONGEST && rest.starts_with(['\\', '%', '&']) && rest.bytes().all(may_be)
}

/// Whether a text may begin with this because it was cut off within one.
pub(super) fn is_rest(text: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"\\%&#{};".contains(&byte);
    text.len() < LONGEST && text.bytes().all(may_be)
}

/// Any of them but doubled quotes.
pub(super) fn any(text: &str) -> Option<(char, usize)> {
    match text.as_bytes().first()? {
        b'\\' => backslash(text),
        b'%' => percent(text),
        b'&' => entity(text),
        _ => None,
    }
}

/// Those of JSON and what most languages have beside them.
fn backslash(text: &str) -> Option<(char, usize)> {
    let rest = text.strip_prefix('\\')?;
    let sign = rest.chars().next()?;
    let plain = match sign {
        '"' | '\'' | '\\' | '/' => sign,
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'x' => return bytes(text, "\\x"),
        'U' => return Some((char::from_u32(number(rest.get(1..9)?, 16)?)?, 10)),
        'u' => return in_braces(rest).or_else(|| utf16(text)),
        _ => return None,
    };
    Some((plain, 1 + sign.len_utf8()))
}

/// Those of addresses and forms.
fn percent(text: &str) -> Option<(char, usize)> {
    bytes(text, "%")
}

fn single_quote(text: &str) -> Option<(char, usize)> {
    text.starts_with("''").then_some(('\'', 2))
}

fn double_quote(text: &str) -> Option<(char, usize)> {
    text.starts_with("\"\"").then_some(('"', 2))
}

/// `\u{e4}`, without the backslash.
fn in_braces(rest: &str) -> Option<(char, usize)> {
    let digits = head(rest, 9).strip_prefix("u{")?.split_once('}')?.0;
    Some((char::from_u32(number(digits, 16)?)?, digits.len() + 4))
}

/// `\u00e4`, or two of them for one character.
fn utf16(text: &str) -> Option<(char, usize)> {
    let unit =
        |text: &str| -> Option<u16> { number(text.strip_prefix("\\u")?.get(..4)?, 16)?.try_into().ok() };
    let first = unit(text)?;
    let second = text.get(6..).and_then(unit);
    let read = char::decode_utf16([first].into_iter().chain(second)).next()?.ok()?;
    Some((read, 6 * read.len_utf16()))
}

/// A character by its bytes, each of which has this sign before it: those of UTF-8, or else the one of Latin 1.
fn bytes(text: &str, sign: &str) -> Option<(char, usize)> {
    let length = sign.len() + 2;
    let byte = |at: usize| -> Option<u8> {
        let digits = text.get(at * length..)?.strip_prefix(sign)?.get(..2)?;
        number(digits, 16)?.try_into().ok()
    };
    let first = byte(0)?;
    let count = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((first.into(), length)),
    };
    let all: Vec<u8> = (0..count).map_while(byte).collect();
    let read = std::str::from_utf8(&all).ok().and_then(|read| read.chars().next());
    // More of it may have been cut off.
    let rest = &text[all.len() * length..];
    let is_begun = rest.len() < length && (sign.starts_with(rest) || rest.starts_with(sign));
    match read {
        Some(read) => Some((read, count * length)),
        None => (!is_begun).then_some((first.into(), length)),
    }
}

/// Those of HTML and XML, by their numbers; by their names those that are written for what has a meaning there.
fn entity(text: &str) -> Option<(char, usize)> {
    let (name, _) = head(text, LONGEST).strip_prefix('&')?.split_once(';')?;
    let read = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        _ => {
            let digits = name.strip_prefix('#')?;
            let hex = digits.strip_prefix(['x', 'X']).map(|digits| number(digits, 16));
            char::from_u32(hex.unwrap_or_else(|| number(digits, 10))?)?
        }
    };
    Some((read, name.len() + 2))
}

/// So much of the beginning of a text, in bytes; a little less where that would be within a character.
fn head(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Digits, and no sign before them.
fn number(digits: &str, radix: u32) -> Option<u32> {
    let is_number = digits.chars().all(|digit| digit.is_digit(radix));
    u32::from_str_radix(digits, radix).ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_as_long_as_it_is() {
        for (text, read) in [
            (r"\x41", 'A'),
            (r"\xe9", 'é'),
            (r"\xc3\xa9", 'é'),
            (r"\xf0\x9f\x98\x80", '😀'),
            (r"\u{e9}", 'é'),
            (r"\u{1F600}", '😀'),
            (r"\U0001f600", '😀'),
            (r"\ud83d\ude00", '😀'),
            ("%40", '@'),
            ("%c3%A9", 'é'),
            ("%F0%9F%98%80", '😀'),
            ("%E9", 'é'),
            ("&amp;", '&'),
            ("&#39;", '\''),
            ("&#x27;", '\''),
            ("&#128512;", '😀'),
        ] {
            for rest in ["", "é", ";41 and more"] {
                // That of a byte alone may be the first of several.
                let is_first = rest.is_empty() && matches!(text, r"\xe9" | "%E9");
                let expected = (!is_first).then_some((read, text.len()));
                assert_eq!(any(&format!("{text}{rest}")), expected, "{text}{rest}");
                assert!((read.len_utf8() + 1..=LONGEST).contains(&text.len()), "{text}");
            }
        }
    }

    #[test]
    fn each_sort_reads_its_own() {
        for (text, read) in [(r"\n", '\n'), ("%41", 'A'), ("&lt;", '<'), ("''", '\''), ("\"\"", '"')] {
            for (sign, escape) in SORTS {
                let expected = text.starts_with(sign).then_some((read, text.len()));
                assert_eq!(escape(text), expected, "{text} by {sign}");
                assert_eq!(escape("'\""), None, "two of the same are one");
            }
        }
    }

    #[test]
    fn what_is_none_stays() {
        for text in [
            r"\ud83d",
            r"\ud83d\u0041",
            r"\u+123",
            "\\",
            r"\uää",
            r"\u{}",
            r"\u{110000}",
            r"\u{+1}",
            r"\Uää",
            r"\x+1",
            r"\xä",
            "%",
            "%%",
            "%4",
            "%+1",
            "%ä",
            "&",
            "&;",
            "&#;",
            "&#x;",
            "&#+1;",
            "&#xd800;",
            "&unknown;",
            "&ääääää;",
            "& amp;",
            "&#99999999999;",
        ] {
            assert_eq!(any(text), None, "{text}");
        }
    }
}
