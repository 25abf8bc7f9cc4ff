//! Texts without the values that were hidden.

use super::{
    Secrets, Verbatim,
    cut::{Piece, pieces},
    escapes::{Escape, LONGEST, SORTS, any, is_rest},
    finder::{Finder, Found},
    hidden,
    secrets::SHORTEST,
    unescaped::Unescaped,
};
use std::cmp::Reverse;

/// How often a text is read: as it stands, and what was quoted, and quoted again.
const QUOTED: usize = 4;
/// The most texts that one may mean: the plainest of them.
const MOST_MEANT: usize = 64;

impl Secrets {
    /// Hides them in all texts of a value.
    pub(crate) fn scrub(&self, value: &mut Verbatim) {
        match value {
            Verbatim::Array(items) => items.iter_mut().for_each(|item| self.scrub(item)),
            Verbatim::Object(fields) => fields.iter_mut().for_each(|(_, value)| self.scrub(value)),
            Verbatim::Text(text) => *text = self.scrubbed(text),
            Verbatim::Plain(_) => {}
        }
    }

    /// A text without them, also where a program quoted them: in what its escapes mean, and those in that. Of one that was cut also without the
    /// beginning of one before the cut, and the end of one behind it.
    pub(crate) fn scrubbed(&self, text: &str) -> String {
        if self.texts.is_empty() || text.len() < SHORTEST {
            return text.to_owned();
        }
        let mut shown = String::with_capacity(text.len());
        for piece in pieces(text) {
            let mut end = 0;
            for Found { start, end: its_end, characters } in self.found(&piece) {
                if start >= end {
                    shown.push_str(&piece.text[end..start]);
                    shown.push_str(&hidden(characters));
                }
                end = its_end.max(end);
            }
            shown.push_str(&piece.text[end..]);
            shown.push_str(piece.note);
        }
        shown
    }

    /// Where they stand in a text as it is, and as it may be meant; the first and longest first.
    fn found(&self, piece: &Piece<'_>) -> Vec<Found> {
        let (text, mut found) = (Unescaped::of(piece.text, piece.ends_cut), Vec::new());
        let of_form = text.of_form();
        let mut texts = Vec::from_iter([Some(text), of_form].into_iter().flatten());
        let mut looked = 0;
        for again in (0..QUOTED).rev() {
            let read = texts.len();
            for at in looked..read {
                self.find(&texts[at], &mut found);
                if piece.begins_cut {
                    self.find_end(&texts[at], piece.text, &mut found);
                }
                for escape in self.escapes(&texts[at].text).into_iter().filter(|_| again > 0) {
                    let meant = texts[at].read(escape).filter(|_| texts.len() < MOST_MEANT);
                    texts.extend(meant.filter(|meant| texts.iter().all(|known| known.text != meant.text)));
                }
            }
            looked = read;
        }
        found.sort_unstable_by_key(|one| (one.start, Reverse((one.end, one.characters))));
        found
    }

    /// What may have been written in the place of characters of a text: one sort of escapes, as what looks like one of another may be a part of what is
    /// to be hidden, or all of them mixed. A quote is doubled where there is one.
    fn escapes(&self, text: &str) -> Vec<Escape> {
        let may_be =
            |sign: char| (!matches!(sign, '\'' | '"') || self.quotes.contains(&sign)) && text.contains(sign);
        let mut escapes: Vec<Escape> =
            SORTS.into_iter().filter(|(sign, _)| may_be(*sign)).map(|(_, escape)| escape).collect();
        if escapes.len() > 1 {
            escapes.push(any);
        }
        escapes
    }

    fn find(&self, text: &Unescaped, found: &mut Vec<Found>) {
        let mut add = |start: usize, end: usize, characters: usize| {
            let (start, end) = text.place(start, end);
            found.push(Found { start, end, characters });
        };
        let finder = self.finder.get_or_init(|| Finder::of(&self.texts));
        let begun = finder.find(&text.text, |one| add(one.start, one.end, one.characters));
        if text.is_cut && begun >= SHORTEST {
            let end = text.text.len();
            add(end - begun, end, text.text[end - begun..].chars().count());
        }
    }

    /// The end of one at the beginning of a text. What was cut within an escape begins with the rest of it: that is hidden, too.
    fn find_end(&self, text: &Unescaped, written: &str, found: &mut Vec<Found>) {
        let finder = self
            .backwards
            .get_or_init(|| Finder::of(&self.texts.iter().map(|text| backwards(text)).collect()));
        let length = text.text.len();
        for (read, ends) in finder.begun(&backwards(&text.text), length.saturating_sub(LONGEST)) {
            let rest = length - read;
            if ends < SHORTEST || !text.text.is_char_boundary(rest) {
                continue;
            }
            let (begins, end) = text.place(rest, rest + ends);
            if is_rest(&written[..begins]) {
                let characters = text.text[rest..rest + ends].chars().count();
                found.push(Found { start: 0, end, characters });
            }
        }
    }
}

fn backwards(text: &str) -> String {
    text.chars().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::{super::secrets::tests::secrets_of, *};
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use serde_json::json;
    use windlass::Limits;

    #[test]
    fn all_of_many_values_are_hidden_however_they_are_quoted() {
        let texts = (0..1_000).map(|n| format!("user-{n}@example.com"));
        let texts: Vec<String> =
            texts.chain(["user-1", "a \"b\"\nc", "pässwörd😀", "ab/cd+ef=="].map(str::to_owned)).collect();
        let secrets = secrets_of(&json!({ "token": texts }).to_string());
        for text in texts.iter().rev().step_by(25).chain(texts.iter().rev().take(4)) {
            let quoted = json!({ "to": text }).to_string();
            let twice = json!(quoted).to_string();
            // As Python and PHP write JSON.
            let ascii = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            let slashes = text.replace('/', "\\/");
            let length = text.chars().count();
            let errors = [format!("550 for {text}: ä"), format!("{text:?}"), quoted, twice, ascii, slashes];
            for error in errors.into_iter().chain(in_other_places(text)) {
                let shown = secrets.scrubbed(&error);
                assert!(shown.contains(&format!("‹{length} characters hidden›")), "{error}: {shown}");
            }
        }
        let meet = secrets_of(r#"{"token": ["abcd", "cdef"]}"#);
        assert_eq!(meet.scrubbed("abcdef g"), "‹4 characters hidden› g");
        let other = secrets.scrubbed("user-1 is no user-10@example.co, ends in user");
        assert_eq!(other, "‹6 characters hidden› is no ‹6 characters hidden›0@example.co, ends in user");
    }

    /// A text in an address, in what a form sends, in a page, in an address in JSON in that, and as Python, Rust and C write what is beyond ASCII.
    fn in_other_places(text: &str) -> Vec<String> {
        let percent = utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let form = percent.replace("%20", "+");
        let html =
            text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;").replace('\'', "&#x27;");
        let each = |write: &dyn Fn(char) -> String| text.chars().map(write).collect::<String>();
        let numbers = each(&|c| format!("&#{};", u32::from(c)));
        let braces = each(&|c| format!("\\u{{{:x}}}", u32::from(c)));
        let wide = each(&|c| format!("\\U{:08X}", u32::from(c)));
        let bytes: String = text.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        let latin: String = each(&|c| match u32::from(c) {
            wide @ 256.. => format!("\\U{wide:08x}"),
            narrow if c.is_ascii_graphic() && c != '\\' || narrow == 32 => c.to_string(),
            narrow => format!("\\x{narrow:02x}"),
        });
        let nested =
            utf8_percent_encode(&json!({ "url": percent }).to_string(), NON_ALPHANUMERIC).to_string();
        let all = [percent, form, html, numbers, braces, wide, bytes, latin, nested];
        all.map(|quoted| format!("GET /?a=b&t={quoted}&c HTTP/1.1: 100%")).into()
    }

    /// As a page, a query or a program quotes it: nothing but the signs of that was changed. Presigned addresses have `%2F` in them.
    #[test]
    fn a_value_with_escapes_of_another_sort_is_hidden_where_it_is_quoted() {
        let address = "https://b.example/f?X-Amz-Credential=AKIA%2F2026%2Fus-east-1&X-Amz-Signature=3f1c9a";
        let values = [address, r#"C:\x41\"new" & it's"#, "&lt;b>%41 'a' \"\"+1", "a&amp;b\\u0041 \"c\"%20d"];
        let secrets = secrets_of(&json!({ "token": values }).to_string());
        for value in values {
            let html = |text: &str| {
                let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                text.replace('"', "&quot;").replace('\'', "&#x27;")
            };
            let uri = |text: &str| text.replace('%', "%25").replace(' ', "%20").replace('"', "%22");
            let json = |text: &str| json!(text).to_string();
            // As Go writes JSON.
            let go = |text: &str| {
                json(text).replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
            };
            let sql = |text: &str| format!("'{}'", text.replace('\'', "''"));
            let csv = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            for quoted in [
                html(value),
                uri(value),
                go(value),
                sql(value),
                csv(value),
                html(&json(value)),
                json(&html(value)),
                go(&html(value)),
                html(&html(value)),
                html(&uri(value)),
                csv(&json(value)),
                sql(&html(value)),
                json(&sql(value)),
            ] {
                let shown = secrets.scrubbed(&format!("403 Forbidden: <a href={quoted}>: 100%, R&D"));
                let hidden = format!("‹{} characters hidden›", value.chars().count());
                assert!(shown.contains(&hidden), "{quoted}: {shown}");
            }
        }
    }

    /// By its own sort of escapes, or as it stands, whatever else it looks like.
    #[test]
    fn a_value_that_looks_like_an_escape_is_hidden() {
        let values = ["a%41\"b", "&lt;\nx%20", "a+b c", r"C:\x41\new", "100%25\"&amp;"];
        let secrets = secrets_of(&json!({ "token": values }).to_string());
        for value in values {
            for text in [value.to_owned(), format!("{value:?}"), json!(value).to_string()] {
                let shown = secrets.scrubbed(&format!("at {text}."));
                assert!(shown.contains(&format!("‹{} characters hidden›", value.chars().count())), "{shown}");
            }
        }
    }

    /// Wherever it was cut, and however it is quoted there.
    #[test]
    fn of_a_text_that_was_cut_the_beginning_of_a_value_is_hidden() {
        const SECRET: &str = "hunter2 \"päss\"+&wörd";
        let secrets = secrets_of(&json!({ "token": SECRET }).to_string());
        let json = json!(SECRET).to_string();
        let quoted = [SECRET.to_owned(), json[1..json.len() - 1].to_owned()];
        let shows = |text: String| {
            let shown = secrets.scrubbed(&text);
            assert_eq!(shown.ends_with(" bytes)"), text.ends_with(" bytes)"), "{shown}");
            let meant = Unescaped::of(&shown, false);
            meant.read(any).map_or(meant.text, |meant| meant.text).contains("hunt")
        };
        for quoted in &quoted {
            for offset in 0..=quoted.len() {
                let error = "x".repeat(Limits::MAX_ERROR_BYTES - offset) + quoted + " refused, and more";
                assert!(!shows(Limits::storable_error(&error)), "{quoted} cut at {offset}");
            }
        }
        for quoted in quoted.into_iter().chain(in_other_places(SECRET)) {
            for offset in (0..=quoted.len()).filter(|offset| quoted.is_char_boundary(*offset)) {
                let line = format!("{}… (cut: 9999 bytes)", &quoted[..offset]);
                assert!(!shows(line.clone()), "{line}");
            }
        }
        let whole = "no hunter";
        assert_eq!(secrets.scrubbed(whole), whole, "it was not cut");
    }

    /// On both sides of what was left out, as `work --exec` and Python leave it out.
    #[test]
    fn beside_what_was_left_out_neither_end_of_a_value_is_shown() {
        const SECRET: &str = "hunter2 \"päss\"+&wörd";
        let secrets = secrets_of(&json!({ "token": SECRET }).to_string());
        let json = json!(SECRET).to_string();
        let quoted = [SECRET.to_owned(), json[1..json.len() - 1].to_owned()];
        let left_out = Limits::left_out(77);
        for quoted in quoted.into_iter().chain(in_other_places(SECRET)) {
            for offset in (0..=quoted.len()).filter(|offset| quoted.is_char_boundary(*offset)) {
                let (begin, end) = quoted.split_at(offset);
                for (text, part) in [
                    (format!("Traceback: {begin}\n{left_out}\nrefused"), "hunt"),
                    (format!("Traceback: refused\n{left_out}\n{end} refused"), "wörd"),
                    (format!("exit code 1: {left_out} {end} refused"), "wörd"),
                ] {
                    let shown = secrets.scrubbed(&text);
                    let meant = Unescaped::of(&shown, false);
                    let meant = meant.read(any).map_or(meant.text, |meant| meant.text);
                    assert!(!meant.contains(part) && shown.contains(&left_out), "{text}: {shown}");
                    assert!(shown.ends_with("refused"), "{text}: {shown}");
                }
            }
        }
        let shown = secrets_of(r#"{"token": "hunter2-secret"}"#)
            .scrubbed(&format!("exit code 1: {left_out} unter2-secret refused"));
        assert_eq!(shown, format!("exit code 1: {left_out} ‹13 characters hidden› refused"));
        let whole = format!("exit code 1: {left_out} refused by wörd");
        assert_eq!(secrets.scrubbed(&whole), whole, "it does not begin with it");
        assert_eq!(secrets.scrubbed("&wörd refused"), "&wörd refused", "it was not cut");
    }

    /// Each place of the text was compared with each of them, and all that they have alike: some 10^11 characters.
    #[test]
    fn many_values_that_begin_alike_are_looked_for_in_one_pass() {
        let texts: Vec<String> = (4..1_400).map(|length| "a".repeat(length) + "!").collect();
        let secrets = secrets_of(&json!({ "token": texts }).to_string());
        let text = "a".repeat(64 << 10);
        assert_eq!(secrets.scrubbed(&text), text);
        assert_eq!(secrets.scrubbed("aaaaa!"), "‹6 characters hidden›");
    }
}
