//! Expressions that have in each field all that may be written there, and much that may not, alone and in lists of two.

const PARTS: [&str; 40] = [
    "*", "?", "0", "1", "7", "30", "31", "60", "007", "00031", "1-5", "1-0", "0-0", "7-0", "1-0/2", "1-00/3",
    "5-1", "*/5", "*/0", "*/+5", "*/0005", "1-5/2", "5/2", "5/20000", "?/2", "L", "LW", "30W", "31w", "5L",
    "fril", "mon-fril", "5#2", "sun#6", "MON-SUN", "feb-dec", "foo", "", "-", "1-2-3",
];
/// Of these some never ticks together.
const DAYS: [&str; 11] = ["*", "?", "29", "30", "31", "30W", "30,31W", "30W,1", "L", "31,LW", "*/29"];
const MONTHS: [&str; 5] = ["*", "FEB", "2,4", "4-6", "*/2"];
const WEEKDAYS: [&str; 6] = ["*", "?", "5", "5#5", "0-6", "*/1"];

pub(crate) fn expressions() -> Vec<String> {
    let mut all = Vec::new();
    for first in PARTS {
        for list in PARTS.iter().map(|second| format!("{first},{second}")).chain([first.to_owned()]) {
            for field in 0..6 {
                let mut fields = ["0", "0", "0", "*", "*", "*"].map(str::to_owned);
                fields[field].clone_from(&list);
                all.push(fields.join(" "));
            }
        }
    }
    for (day, month) in DAYS.iter().flat_map(|day| MONTHS.map(|month| (day, month))) {
        all.extend(WEEKDAYS.map(|weekday| format!("0 0 {day} {month} {weekday}")));
    }
    all
}
