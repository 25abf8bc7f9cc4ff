//! JSON as it is written. `serde_json::Value` keeps one of the values of a key that stands twice, and 17 digits of a number: what it
//! dropped would not be hidden where an error quotes it.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// How deep it may be nested, as everywhere in serde_json.
const DEEPEST: usize = 127;

/// A value with all that its text says, in its order.
#[derive(Clone, Debug)]
pub(crate) enum Verbatim {
    /// A number, true, false or null.
    Plain(Box<RawValue>),
    Text(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Verbatim {
    /// `None` where it is nested too deep, or has half a character.
    pub(crate) fn read(json: &str) -> Option<Self> {
        let mut rest = Rest(json);
        rest.value(DEEPEST).filter(|_| rest.next().is_none())
    }

    /// What serde writes of something.
    pub(crate) fn of(value: &impl Serialize) -> Option<Self> {
        Self::read(&serde_json::to_string(value).ok()?)
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Plain(plain) if plain.get() == "null")
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        let Self::Object(fields) = self else { return None };
        fields.iter_mut().find_map(|(key, value)| (key == name).then_some(value))
    }

    /// Sets a field of an object.
    pub(crate) fn set(&mut self, name: &str, value: Self) {
        match self.get_mut(name) {
            Some(field) => *field = value,
            None => {
                if let Self::Object(fields) = self {
                    fields.push((name.to_owned(), value));
                }
            }
        }
    }
}

impl Serialize for Verbatim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(plain) => plain.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(fields) => serializer.collect_map(fields.iter().map(|(key, value)| (key, value))),
        }
    }
}

/// What is not read yet.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    /// The sign that comes next, which stays.
    fn next(&mut self) -> Option<u8> {
        self.0 = self.0.trim_start();
        self.0.bytes().next()
    }

    /// Takes this sign, if it comes next.
    fn takes(&mut self, sign: u8) -> bool {
        let comes = self.next() == Some(sign);
        self.0 = &self.0[usize::from(comes)..];
        comes
    }

    fn value(&mut self, deep: usize) -> Option<Verbatim> {
        match self.next()? {
            b'{' => {
                let mut fields = Vec::new();
                self.each(b'{', b'}', |rest| {
                    let key = rest.text()?;
                    fields.push((key, rest.takes(b':').then(|| rest.value(deep.checked_sub(1)?))??));
                    Some(())
                })?;
                Some(Verbatim::Object(fields))
            }
            b'[' => {
                let mut items = Vec::new();
                self.each(b'[', b']', |rest| {
                    items.push(rest.value(deep.checked_sub(1)?)?);
                    Some(())
                })?;
                Some(Verbatim::Array(items))
            }
            b'"' => self.text().map(Verbatim::Text),
            _ => {
                let end = self.0.find(|sign: char| matches!(sign, ',' | '}' | ']') || sign.is_whitespace());
                let (plain, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
                self.0 = rest;
                RawValue::from_string(plain.to_owned()).ok().map(Verbatim::Plain)
            }
        }
    }

    /// Reads what stands between two signs, with commas between.
    fn each(&mut self, open: u8, close: u8, mut read: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if self.takes(open) && self.takes(close) {
            return Some(());
        }
        loop {
            read(self)?;
            if self.takes(close) {
                return Some(());
            }
            self.takes(b',').then_some(())?;
        }
    }

    fn text(&mut self) -> Option<String> {
        (self.next()? == b'"').then_some(())?;
        let (mut end, bytes) = (1, self.0.as_bytes());
        while *bytes.get(end)? != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let (text, rest) = self.0.split_at(end + 1);
        self.0 = rest;
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_lost() {
        let json = r#"{"b":[1.10,18446744073709551617,-0,1e999,true,null,{},[]],"a":"\"ä\u0000\\","a":{"a":1},"ä}":"x,]"}"#;
        assert_eq!(serde_json::to_string(&Verbatim::read(json)).unwrap(), json);
        let spaced = json.replace([',', ':'], " \n$0\t").replace("$0", ",");
        assert!(Verbatim::read(&spaced).is_none(), "no colon");
        let read = Verbatim::read(" { \"a\" : [ 1 , 2 ] , \"b\" : \"\\u0061\" } ").unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"a":[1,2],"b":"a"}"#);
    }

    #[test]
    fn what_serde_does_not_read_is_not_read() {
        let nested = |deep: usize| format!("{}1{}", "[".repeat(deep), "]".repeat(deep));
        for (json, reads) in [
            (nested(127), true),
            (nested(128), false),
            (nested(1_000_000), false),
            (r#""\ud800""#.to_owned(), false),
            ("".to_owned(), false),
            ("[1,]".to_owned(), false),
            ("{1:2}".to_owned(), false),
            ("[1 2]".to_owned(), false),
            ("1 2".to_owned(), false),
            ("\"a".to_owned(), false),
            ("\"a\\".to_owned(), false),
        ] {
            let shown: String = json.chars().take(20).collect();
            assert_eq!(Verbatim::read(&json).is_some(), reads, "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), reads, "{shown}");
        }
    }
}
