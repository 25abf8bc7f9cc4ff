//! Finds many texts in another one, in one pass over it however many they are and however much they are alike: the automaton of Aho and Corasick,
//! without its lists of all that ends at a place, which of texts that end alike are as long as the texts together.

use super::LONGEST_TEXT;
use std::collections::BTreeSet;

/// What is longer is in no text as a whole: of it the beginning is known, which a text may end with.
const DEEPEST: usize = LONGEST_TEXT;
/// No text ends there.
const NONE: u32 = u32::MAX;

/// What the texts begin with, as a tree: nodes are numbered by their depth, so that the children of one stand together.
pub(super) struct Finder {
    /// Of each text its length in bytes, and in characters.
    lengths: Vec<(usize, usize)>,
    /// By the node: the byte by which its parent leads to it.
    bytes: Vec<u8>,
    /// Where its children begin. They end where those of the next node begin.
    children: Vec<u32>,
    /// The longest that it ends with of the other nodes.
    shorter: Vec<u32>,
    /// The longest text that it ends with.
    ends: Vec<u32>,
    /// The first node of each depth.
    depths: Vec<usize>,
}

/// Where a text was found.
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) characters: usize,
}

impl Finder {
    pub(super) fn of(texts: &BTreeSet<String>) -> Self {
        let lengths = texts.iter().map(|text| (text.len(), text.chars().count())).collect();
        let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let (children, depths) = (Vec::new(), Vec::new());
        let mut finder =
            Self { lengths, bytes: vec![0], children, shorter: vec![0], ends: vec![NONE], depths };
        // Of the nodes of this depth: which texts begin with them. These are sorted.
        let mut level = vec![(0, texts.len())];
        while !level.is_empty() {
            let (depth, first) = (finder.depths.len(), finder.bytes.len() - level.len());
            finder.depths.push(first);
            let mut next = Vec::new();
            for (node, (mut from, to)) in (first..).zip(level) {
                finder.children.push(number(finder.bytes.len()));
                // The one that ends here is the first of them.
                from += texts[from..to].iter().take_while(|text| text.len() == depth).count();
                while from < to && depth < DEEPEST {
                    let byte = texts[from][depth];
                    let end = from + texts[from..to].partition_point(|text| text[depth] == byte);
                    finder.add(node, byte, (texts[from].len() == depth + 1).then_some(from));
                    next.push((from, end));
                    from = end;
                }
            }
            level = next;
        }
        finder.children.push(number(finder.bytes.len()));
        finder
    }

    /// Adds a child to a node, and the text that ends there.
    fn add(&mut self, parent: usize, byte: u8, text: Option<usize>) {
        // Those that are shorter than the child are there, with their children as far as they are shorter, too.
        let shorter = if parent == 0 { 0 } else { self.step(self.shorter[parent] as usize, byte) };
        self.bytes.push(byte);
        self.shorter.push(number(shorter));
        self.ends.push(text.map_or(self.ends[shorter], number));
    }

    /// The longest node that what was read ends with, one byte later.
    fn step(&self, mut node: usize, byte: u8) -> usize {
        loop {
            let (from, to) = (self.children[node] as usize, self.children[node + 1] as usize);
            if let Ok(at) = self.bytes[from..to].binary_search(&byte) {
                return from + at;
            }
            if node == 0 {
                return 0;
            }
            node = self.shorter[node] as usize;
        }
    }

    /// How many bytes one of them begins with, at most, that a text ends with: of each beginning of the text that is at least so long.
    pub(super) fn begun(&self, text: &str, least: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut node = 0;
        let read = (1..).zip(text.bytes()).map(move |(length, byte)| {
            node = self.step(node, byte);
            (length, node)
        });
        read.skip_while(move |(length, _)| *length < least).map(|(length, node)| (length, self.depth(node)))
    }

    fn depth(&self, node: usize) -> usize {
        self.depths.partition_point(|first| *first <= node) - 1
    }

    /// Where they stand in a text: of those that end at the same place the longest. Gives how many bytes at the end of the text one of them begins
    /// with, at most.
    pub(super) fn find(&self, text: &str, mut found: impl FnMut(Found)) -> usize {
        let mut node = 0;
        for (at, byte) in text.bytes().enumerate() {
            node = self.step(node, byte);
            if let Some((length, characters)) = self.lengths.get(self.ends[node] as usize) {
                found(Found { start: at + 1 - length, end: at + 1, characters: *characters });
            }
        }
        self.depth(node)
    }
}

/// What is hidden of a job are some megabytes at most.
fn number(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(texts: &[&str]) -> Finder {
        Finder::of(&texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn texts_are_found_where_they_stand() {
        let finder = finder(&["he", "she", "his", "hers", "ä"]);
        let mut found = Vec::new();
        let begun = finder.find("ushers, ä hi", |one| found.push((one.start, one.end, one.characters)));
        assert_eq!(found, [(1, 4, 3), (2, 6, 4), (8, 10, 1)]);
        assert_eq!(begun, 2, "hi begins his");
        assert_eq!(finder.find("", |_| unreachable!("nothing is there")), 0);
        assert_eq!(finder.find("hers", |_| {}), 4, "it may go on, if it is none");
        assert_eq!(finder.begun("us hi", 3).collect::<Vec<_>>(), [(3, 0), (4, 1), (5, 2)]);
    }

    /// As all places and all texts say.
    #[test]
    fn nothing_is_missed() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let mut text = |most: usize| -> String {
                (0..random.usize(1..=most)).map(|_| ['a', 'b', 'ä'][random.usize(..3)]).collect()
            };
            let texts: BTreeSet<String> = (0..6).map(|_| text(5)).collect();
            let looked: String = text(30);
            let mut hidden = vec![false; looked.len()];
            for text in &texts {
                for at in (0..looked.len()).filter(|at| looked.as_bytes()[*at..].starts_with(text.as_bytes()))
                {
                    hidden[at..at + text.len()].fill(true);
                }
            }
            let begun = (0..=looked.len())
                .find(|at| texts.iter().any(|text| text.as_bytes().starts_with(&looked.as_bytes()[*at..])));
            let mut found = vec![false; looked.len()];
            let finder = Finder::of(&texts);
            let at_the_end = finder.find(&looked, |one| found[one.start..one.end].fill(true));
            assert_eq!((found, at_the_end), (hidden, looked.len() - begun.unwrap()), "{texts:?} in {looked}");
        }
    }

    /// Each of these places and texts was looked at before, and all that they have alike: 10^11 characters.
    #[test]
    fn what_is_alike_is_looked_at_once() {
        let texts: BTreeSet<String> = (4..1_400).map(|length| "a".repeat(length) + "!").collect();
        let (finder, mut found) = (Finder::of(&texts), 0);
        assert_eq!(finder.find(&"a".repeat(64 << 10), |_| found += 1), 1_399);
        assert_eq!(found, 0);
        let texts: BTreeSet<String> = (4..1_400).map(|length| "a".repeat(length)).collect();
        let longest = "a".repeat(1 << 20);
        let finder = Finder::of(&texts.into_iter().chain([longest]).collect());
        assert_eq!(
            finder.bytes.len(),
            DEEPEST + 1,
            "memory for each of its beginnings, and for no pair of them"
        );
        assert_eq!(finder.find(&"a".repeat(64 << 10), |_| found += 1), 64 << 10);
        assert_eq!(found, (64 << 10) - 3);
    }
}
