//! Reads objects from objects alone. Serde takes an array for one, too, which has its values in the order in which a program's source happens to have
//! the fields: what was meant by `[5, 0]` is anybody's guess. And no more of them than there is room for: a body of many small values takes thirty
//! times its length when it is read, whatever is refused of it afterwards.

use serde::{
    Deserializer,
    de::{DeserializeSeed, EnumAccess, Error, MapAccess, SeqAccess, Visitor},
};
use std::{cell::Cell, fmt};

/// What the values of a body may take in memory beside their texts, in bytes: twice what as many of the largest jobs take as one call enqueues.
pub(crate) const ROOM: usize = 32 << 20;

/// What reads, and all that is read by it; and how much more may be read.
pub(crate) struct Objects<'a, T>(pub(crate) T, pub(crate) &'a Cell<usize>);

impl<T> Objects<'_, T> {
    /// A value was read.
    fn take<V, E: Error>(&self) -> Result<(), E> {
        let too_many = || E::custom("too many values in one body; send less at once");
        self.1.set(self.1.get().checked_sub(size_of::<V>()).ok_or_else(too_many)?);
        Ok(())
    }
}

macro_rules! pass_on {
    ($($read:ident $(($($name:ident: $of:ty),*))?),*) => {
        $(fn $read<V: Visitor<'de>>(self, $($($name: $of,)*)? visitor: V) -> Result<V::Value, Self::Error> {
            self.0.$read($($($name,)*)? Objects(visitor, self.1))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Objects<'_, D> {
    type Error = D::Error;

    pass_on!(
        deserialize_any,
        deserialize_bool,
        deserialize_i8,
        deserialize_i16,
        deserialize_i32,
        deserialize_i64,
        deserialize_i128,
        deserialize_u8,
        deserialize_u16,
        deserialize_u32,
        deserialize_u64,
        deserialize_u128,
        deserialize_f32,
        deserialize_f64,
        deserialize_char,
        deserialize_str,
        deserialize_string,
        deserialize_bytes,
        deserialize_byte_buf,
        deserialize_option,
        deserialize_unit,
        deserialize_unit_struct(name: &'static str),
        deserialize_newtype_struct(name: &'static str),
        deserialize_seq,
        deserialize_tuple(len: usize),
        deserialize_tuple_struct(name: &'static str, len: usize),
        deserialize_map,
        deserialize_enum(name: &'static str, variants: &'static [&'static str]),
        deserialize_identifier,
        deserialize_ignored_any
    );

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Objects(visitor, self.1))
    }
}

macro_rules! tell {
    ($($visit:ident: $of:ty),*) => {
        $(fn $visit<E: Error>(self, value: $of) -> Result<V::Value, E> {
            self.0.$visit(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Objects<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    tell!(
        visit_bool: bool,
        visit_i64: i64,
        visit_i128: i128,
        visit_u64: u64,
        visit_u128: u128,
        visit_f64: f64,
        visit_str: &str,
        visit_borrowed_str: &'de str,
        visit_string: String
    );

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Objects(value, self.1))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Objects(value, self.1))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Objects(items, self.1))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Objects(fields, self.1))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, value: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(value)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Objects<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Objects(value, self.1))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Objects<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let next = self.0.next_element_seed(Objects(seed, self.1))?;
        next.map(|value| self.take::<S::Value, _>().map(|()| value)).transpose()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Objects<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.take::<S::Value, _>()?;
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.take::<S::Value, _>()?;
        self.0.next_value_seed(Objects(seed, self.1))
    }
}
