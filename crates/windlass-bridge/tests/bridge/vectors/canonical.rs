//! The canonical form of a JSON value, as conformance/README.md says; written for each language anew.

use serde_json::Value;

pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Array(values) => format!("[{}]", values.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            let field =
                |name: &String| format!("{}:{}", Value::from(name.as_str()), canonical(&fields[name]));
            format!("{{{}}}", names.into_iter().map(field).collect::<Vec<_>>().join(","))
        }
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap()),
        plain => plain.to_string(),
    }
}

/// As JavaScript writes it: the shortest digits that are read back as the same number.
fn float(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let minus = if number < 0.0 { "-" } else { "" };
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap();
    let (digits, point) = (mantissa.replace('.', ""), exponent.parse::<i32>().unwrap() + 1);
    let count = i32::try_from(digits.len()).unwrap();
    let zeros = |count: i32| "0".repeat(count.unsigned_abs() as usize);
    let text = match point {
        _ if (count..=21).contains(&point) => format!("{digits}{}", zeros(point - count)),
        1..=21 => {
            let (whole, fraction) = digits.split_at(point.unsigned_abs() as usize);
            format!("{whole}.{fraction}")
        }
        -5..=0 => format!("0.{}{digits}", zeros(point)),
        _ => format!("{mantissa}e{:+}", point - 1),
    };
    format!("{minus}{text}")
}
