//! The golden vectors, which an implementation in Python made that shares nothing with this one.

use super::{
    super::{bound::Bound, codec::open, unopened::Unopened},
    *,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use windlass_core::JobId;

#[derive(Deserialize)]
struct Vectors {
    keys: BTreeMap<String, String>,
    sealed: Vec<Vector>,
    opened: Vec<Vector>,
    refused: Vec<Vector>,
    plain: Vec<String>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    what: String,
    kind: String,
    binding: Option<String>,
    job_key: Option<String>,
    job_id: Option<String>,
    envelope: String,
    key_id: Option<String>,
    plaintext: Option<String>,
    nonce: Option<String>,
    associated_data: Option<String>,
    why: Option<String>,
}

impl Vector {
    fn bound(&self) -> Bound<'_> {
        match self.what.as_str() {
            "args" => Bound::Args {
                kind: &self.kind,
                binding: self.binding.as_deref().unwrap(),
                key: self.job_key.as_deref(),
            },
            "result" => {
                Bound::Result { kind: &self.kind, job: JobId(self.job_id.as_ref().unwrap().parse().unwrap()) }
            }
            other => panic!("{other}"),
        }
    }
}

fn vectors() -> (Vectors, Keyring) {
    let vectors: Vectors =
        serde_json::from_str(include_str!("../../../../conformance/vectors/encryption.json")).unwrap();
    let text: Vec<_> = vectors.keys.iter().map(|(id, key)| format!("{id}:{key}")).collect();
    let keyring = Keyring::parse(&text.join(",")).unwrap();
    (vectors, keyring)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn sealing_gives_the_golden_envelopes() {
    let (vectors, keyring) = vectors();
    assert!(!vectors.sealed.is_empty());
    for vector in vectors.sealed {
        let (name, bound) = (&vector.name, vector.bound());
        let key = keyring.find(vector.key_id.as_ref().unwrap()).unwrap();
        assert_eq!(&hex(&bound.associated_data(&key.id)), vector.associated_data.as_ref().unwrap(), "{name}");
        let nonce = BASE64.decode(vector.nonce.as_ref().unwrap()).unwrap().try_into().unwrap();
        let plaintext = vector.plaintext.as_ref().unwrap();
        assert_eq!(key.seal(&nonce, plaintext, bound).unwrap().as_str(), vector.envelope, "{name}");
        let opened = open(Some(&keyring), &vector.envelope, bound).unwrap();
        assert_eq!(opened, plaintext.as_bytes(), "{name}");
        let without_keys = open(None, &vector.envelope, bound).unwrap_err();
        assert_eq!(without_keys, Unopened::UnknownKey(key.id.clone()), "{name}");
    }
}

#[test]
fn other_writings_open() {
    let (vectors, keyring) = vectors();
    assert!(!vectors.opened.is_empty());
    for vector in vectors.opened {
        let opened = open(Some(&keyring), &vector.envelope, vector.bound()).unwrap();
        assert_eq!(opened, vector.plaintext.unwrap().as_bytes(), "{}", vector.name);
    }
}

#[test]
fn what_was_changed_or_swapped_is_refused() {
    let (vectors, keyring) = vectors();
    assert!(!vectors.refused.is_empty());
    for vector in vectors.refused {
        let why = open(Some(&keyring), &vector.envelope, vector.bound()).expect_err(&vector.name);
        let told = match &why {
            Unopened::UnknownKey(_) => "unknown_key",
            Unopened::UnknownVersion(_) => "unknown_version",
            Unopened::Malformed => "malformed",
            Unopened::NotAuthentic(_) => "not_authentic",
        };
        assert_eq!(told, vector.why.unwrap(), "{}", vector.name);
        assert_eq!(why.may_open_elsewhere(), told.starts_with("unknown"), "{}", vector.name);
    }
}

#[test]
fn plain_args_are_told_apart() {
    for plain in vectors().0.plain {
        assert!(!Envelope::is_one(plain.as_bytes()), "{plain}");
        Args::parse(&plain).unwrap();
    }
}

#[test]
fn no_two_envelopes_are_alike() {
    let keyring = vectors().1;
    let bound = Bound::Result { kind: "k", job: JobId(1) };
    let sealed: std::collections::BTreeSet<_> =
        (0..100).map(|_| keyring.seal("1", bound).unwrap().as_str().to_owned()).collect();
    assert_eq!(sealed.len(), 100);
    let bindings: std::collections::BTreeSet<_> = (0..100).map(|_| keyring.new_binding().unwrap()).collect();
    assert_eq!(bindings.len(), 100);
    assert!(bindings.iter().all(|binding| binding.len() == 22));
}

#[test]
fn keys_are_wiped_and_never_shown() {
    fn is_wiped<T: zeroize::ZeroizeOnDrop>(_: &T) {}
    let keyring = Keyring::new("k1", [0xAB; 32]).unwrap();
    is_wiped(&keyring.keys[0].cipher);
    assert_eq!(format!("{keyring:?}"), r#"Keyring(["k1"])"#);
}
