//! One value of an attribute.

use std::time::Duration;
use syn::{Error, Expr, LitStr, Result, meta::ParseNestedMeta};

/// Puts what is read into a slot that is empty yet.
pub(crate) fn set<T>(
    slot: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    read: impl FnOnce(&ParseNestedMeta<'_>) -> Result<T>,
) -> Result<()> {
    if slot.replace(read(meta)?).is_some() {
        return Err(meta.error("given twice; keep one"));
    }
    Ok(())
}

/// A duration in words, and where it stands.
pub(crate) fn duration(meta: &ParseNestedMeta<'_>, example: &str) -> Result<(LitStr, Duration)> {
    let literal = text(meta, example)?;
    match humantime::parse_duration(&literal.value()) {
        Ok(duration) => Ok((literal, duration)),
        Err(cause) => {
            let message = format!("{cause}; write a duration like \"30s\", \"500ms\" or \"1h 30m\"");
            Err(Error::new(literal.span(), message))
        }
    }
}

/// A text in quotes.
pub(crate) fn text(meta: &ParseNestedMeta<'_>, example: &str) -> Result<LitStr> {
    let value: Expr = meta.value()?.parse()?;
    syn::parse2(quote::quote!(#value))
        .map_err(|_| Error::new_spanned(&value, format!("write a text in quotes, like {example}")))
}
