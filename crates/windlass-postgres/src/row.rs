//! Columns of rows: how they are read, and wire formats that the driver has no type for.

use bytes::{BufMut, BytesMut};
use std::{error::Error as StdError, time::Duration};
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, ToSql, Type, to_sql_checked},
};
use windlass_core::{Args, Error, ErrorKind};

/// Reads a column.
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, Error> {
    row.try_get(index).map_err(|cause| {
        Error::new(ErrorKind::Internal, format!("cannot read column {index}: {cause}")).with_source(cause)
    })
}

/// Reads a column that is never negative.
pub(crate) fn count(row: &Row, index: usize) -> Result<u64, Error> {
    Ok(u64::try_from(get::<i64>(row, index)?).unwrap_or(0))
}

/// As [`count`], of 16 bits.
pub(crate) fn count16(row: &Row, index: usize) -> Result<u16, Error> {
    Ok(u16::try_from(get::<i16>(row, index)?).unwrap_or(0))
}

/// A time in milliseconds that a function answered.
pub(crate) fn from_ms(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(Duration::MAX)
}

/// A transaction id of 64 bits (`xid8`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Xid(pub(crate) i64);

impl<'a> FromSql<'a> for Xid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(i64::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(kind: &Type) -> bool {
        kind.name() == "xid8"
    }
}

/// JSON text as the server sends it, borrowed from the row.
pub(crate) struct JsonText<'a>(pub(crate) &'a [u8]);

impl JsonText<'_> {
    pub(crate) fn text(&self) -> Result<&str, Error> {
        std::str::from_utf8(self.0)
            .map_err(|cause| Error::new(ErrorKind::Internal, format!("stored JSON is not UTF-8: {cause}")))
    }

    pub(crate) fn args(&self) -> Result<Args, Error> {
        Args::from_store(self.text()?)
    }
}

impl<'a> FromSql<'a> for JsonText<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSON
    }
}

/// JSON text to send: `json` takes the text, `jsonb` the text behind its version byte.
#[derive(Debug)]
pub(crate) struct Json<'a>(pub(crate) &'a str);

impl ToSql for Json<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        if *kind == Type::JSONB {
            out.put_u8(1);
        }
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSON || *kind == Type::JSONB
    }

    to_sql_checked!();
}
