//! Lists that are bounded while they are read: nothing is held of what is too much, however long it goes on.

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, SeqAccess, Visitor},
};
use std::{fmt, marker::PhantomData};

/// A list of at most so many, which is refused as soon as there is one more.
pub(crate) fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    list: D,
    most: usize,
    refusal: fmt::Arguments<'_>,
) -> Result<Vec<T>, D::Error> {
    list.deserialize_seq(Few { most, refusal, of: PhantomData })
}

struct Few<'a, T> {
    most: usize,
    refusal: fmt::Arguments<'a>,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Few<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut read = Vec::new();
        while read.len() < self.most {
            let Some(item) = items.next_element()? else { return Ok(read) };
            read.push(item);
        }
        match items.next_element::<IgnoredAny>()? {
            None => Ok(read),
            Some(_) => Err(A::Error::custom(self.refusal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::value::{Error, SeqDeserializer};

    #[test]
    fn what_is_too_much_is_not_read() {
        for (there, read) in [(0, 0), (6, 6), (7, 7), (8, 8), (1_000, 8)] {
            let mut looked = 0;
            let items = (0..there).inspect(|_| looked += 1);
            let list: SeqDeserializer<_, Error> = SeqDeserializer::new(items);
            let answer: Result<Vec<u32>, _> = at_most(list, 7, format_args!("seven, got more"));
            assert_eq!(looked, read);
            match there {
                0..=7 => assert_eq!(answer.unwrap().len(), there as usize),
                _ => assert_eq!(answer.unwrap_err().to_string(), "seven, got more"),
            }
        }
    }
}
