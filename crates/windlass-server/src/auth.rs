//! Who asks, and whether they may.

mod access;
mod cookie;
mod file;
mod identity;
mod origin;
mod sessions;
mod throttle;
mod token;

pub use access::Access;
pub use file::AuthFile;
pub use identity::{Identity, Role};
pub use token::NewToken;

pub(crate) use access::Auth;
pub(crate) use identity::Via;
pub(crate) use origin::{check_read, check_write};
pub(crate) use token::{Hash, hex, random};
