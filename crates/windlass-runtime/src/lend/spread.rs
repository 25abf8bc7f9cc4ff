use super::Ticket;
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// A table by ticket. Tickets are numbers in a row, which nobody outside chooses: a multiplication spreads them.
pub(super) type ByTicket<T> = HashMap<Ticket, T, BuildHasherDefault<Spread>>;

#[derive(Debug, Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
