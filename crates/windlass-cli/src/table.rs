//! Tables of plain text.

use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// The space between two columns.
const GAP: &str = "  ";

/// Plain aligned text: headers that start with `>` name columns of numbers, aligned to the right.
/// Cells must be escaped already.
pub fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let names: Vec<_> = headers.iter().map(|header| header.trim_start_matches('>').to_owned()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).chain(names.get(column));
        cells.map(|cell| cell.width()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..headers.len()).map(width).collect();
    let mut text = String::new();
    for row in std::iter::once(&names).chain(rows) {
        let mut line = String::new();
        for ((cell, &width), header) in row.iter().zip(&widths).zip(headers) {
            // By what a terminal draws: a kind in Chinese takes two columns for each of its characters.
            let room = " ".repeat(width.saturating_sub(cell.width()));
            let _ = match header.starts_with('>') {
                true => write!(line, "{room}{cell}{GAP}"),
                false => write!(line, "{cell}{room}{GAP}"),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let rows = [vec!["1".to_owned(), "mail".to_owned()], vec!["100".to_owned(), "x".to_owned()]];
        assert_eq!(table(&[">ID", "KIND"], &rows), " ID  KIND\n  1  mail\n100  x\n");
        let wide = [vec!["漢字".to_owned(), "1".to_owned()], vec!["e\u{301}".to_owned(), "2".to_owned()]];
        assert_eq!(table(&["KIND", "N"], &wide), "KIND  N\n漢字  1\ne\u{301}     2\n");
    }
}
