use crate::invalid;
use jiff::tz::TimeZone;
use windlass_core::Result;

/// How many names a message offers.
const OFFERED: usize = 3;

/// The zone of this name. The machine's database is asked first, then the one that comes with the program.
pub(crate) fn zone(name: &str) -> Result<TimeZone> {
    if let Ok(zone) = TimeZone::get(name) {
        return Ok(zone);
    }
    let shown: String = name.chars().take(40).collect();
    let near = near(name);
    let advice = match near.is_empty() {
        true => "use a name of the IANA database such as Europe/Berlin, or UTC".to_owned(),
        false => format!("did you mean {}?", near.join(", ")),
    };
    Err(invalid(format!("unknown time zone {shown:?}; {advice}")))
}

/// Names that look like it: the city alone, or a slip of the finger.
fn near(name: &str) -> Vec<String> {
    let wanted = name.to_ascii_lowercase().replace(' ', "_");
    if wanted.len() > 40 {
        return Vec::new();
    }
    let city = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let distance = |known: &str| {
        let known = known.to_ascii_lowercase();
        edits(&wanted, &known).min(1 + edits(&city(&wanted), &city(&known)))
    };
    let most = 1 + wanted.len() / 4;
    let names = jiff::tz::db().available().map(|name| name.to_string());
    let mut near: Vec<_> = names
        .filter(|name| name.contains('/') || name == "UTC")
        .map(|name| (distance(&name), name))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    near.sort();
    near.into_iter().map(|(_, name)| name).take(OFFERED).collect()
}

/// How many bytes have to be put in, left out or replaced (Levenshtein).
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
