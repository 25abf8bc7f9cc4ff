//! A key as text.

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD as BASE64};
use windlass_core::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

/// Reads `ID:BASE64`. Messages show nothing of it.
pub(super) fn read(entry: &str) -> Result<(&str, Zeroizing<Vec<u8>>)> {
    let refused = |message: &str| Error::new(ErrorKind::InvalidOption, message.to_owned());
    let (id, key) = entry.trim().split_once(':').ok_or_else(|| refused("write it as ID:BASE64"))?;
    let standard: Zeroizing<String> =
        Zeroizing::new(key.trim().trim_end_matches('=').replace('-', "+").replace('_', "/"));
    let bytes = BASE64.decode(&*standard).map_err(|_| refused("what follows the colon is not base64"))?;
    Ok((id.trim(), Zeroizing::new(bytes)))
}

#[cfg(test)]
mod tests {
    use crate::Keyring;

    const K1: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

    #[test]
    fn keys_are_read_in_either_alphabet() {
        let tricky =
            ["__79_Pv6-fj39vX08_Lx8O_u7ezr6uno5-bl5OPi4eA", "//79/Pv6+fj39vX08/Lx8O/u7ezr6uno5+bl5OPi4eA="];
        for text in tricky {
            let keys = Keyring::parse(&format!(" a:{text} ,\n b : {K1}=")).unwrap();
            assert_eq!(keys.ids().collect::<Vec<_>>(), ["a", "b"]);
        }
    }

    #[test]
    fn mistakes_are_named_and_keys_are_not_shown() {
        for (text, words) in [
            ("", "key number 1"),
            (K1, "write it as ID:BASE64"),
            (&format!("a:{K1},"), "key number 2"),
            (&format!("a:{K1},a:{K1}"), "key a is given twice"),
            (&format!("{K1}:k1"), "not base64"),
            (&format!("{K1} {K1}:{K1}"), "got 87 bytes of something else"),
            (&format!("a:{}", &K1[..20]), "must be 32 bytes, got 15"),
            (&format!("a:{K1}AAAA"), "must be 32 bytes, got 35"),
            (&format!("a:{K1}!"), "not base64"),
            (&format!("a:{K1};b:{K1}"), "not base64"),
        ] {
            let error = Keyring::parse(text).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(words), "{text}: {error}");
            assert!(!shown.contains(&K1[..8]), "{shown}");
        }
        let error = Keyring::from_env("WINDLASS_TEST_NO_SUCH_KEYS").unwrap_err();
        assert!(error.to_string().contains("WINDLASS_TEST_NO_SUCH_KEYS is not set"), "{error}");
    }
}
