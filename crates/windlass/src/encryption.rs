//! Encrypted args and results: sealed where they are enqueued or returned, opened where a handler or a caller asks
//! for them. The format is in docs/design/encryption.md.

mod bound;
mod checkpoint;
mod client;
mod codec;
mod elsewhere;
mod missing_keys;
mod opening;
mod unopened;

#[cfg(feature = "encryption")]
mod key_text;
#[cfg(feature = "encryption")]
mod keyring;
#[cfg(not(feature = "encryption"))]
#[path = "encryption/no_keyring.rs"]
mod keyring;

pub(crate) use client::without_content;
pub(crate) use codec::Codec;
pub use elsewhere::Opener;
#[cfg(feature = "encryption")]
pub use keyring::Keyring;
#[cfg(not(feature = "encryption"))]
pub(crate) use keyring::Keyring;
pub(crate) use opening::{OpenHandler, Opening};
