use crate::{Args, Error, ErrorKind, JobFilter, PageToken, Result};

/// Tokens of another version are refused: what their numbers mean may have changed.
const VERSION: &str = "1";

impl PageToken {
    /// For stores: the token of a page of `filter` that ended at `position`, numbers that only the store understands.
    ///
    /// ```
    /// use windlass_core::{JobFilter, PageToken};
    /// let mut filter = JobFilter { queue: Some("mail".into()), ..JobFilter::default() };
    /// filter.after = Some(PageToken::new(&filter, &[2, -7]));
    /// assert_eq!(filter.position().unwrap(), Some(vec![2, -7]));
    /// filter.tag = Some("urgent".into());
    /// assert!(filter.position().is_err());
    /// (filter.tag, filter.error) = (None, Some("urgent".into()));
    /// assert!(filter.position().is_err());
    /// (filter.queue, filter.error) = (None, None);
    /// assert!(filter.position().is_err());
    /// ```
    pub fn new(filter: &JobFilter, position: &[i64]) -> Self {
        let numbers: Vec<_> = position.iter().map(i64::to_string).collect();
        Self(format!("{VERSION}.{:08x}.{}", fingerprint(filter), numbers.join(".")))
    }
}

impl JobFilter {
    /// For stores: the position that [`Self::after`] stands for.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when it is no token, or one that was given with another filter.
    pub fn position(&self) -> Result<Option<Vec<i64>>> {
        let Some(token) = &self.after else { return Ok(None) };
        let refused = |what: &str| {
            let token: String = token.0.chars().take(100).collect();
            let message = format!("page token {token:?} {what}; list without it to begin anew");
            Error::new(ErrorKind::InvalidOption, message)
        };
        let mut parts = token.0.split('.');
        if parts.next() != Some(VERSION) {
            return Err(refused("is not one of this version"));
        }
        if parts.next() != Some(&format!("{:08x}", fingerprint(self))) {
            return Err(refused("belongs to another filter"));
        }
        let numbers: std::result::Result<Vec<_>, _> = parts.map(str::parse).collect();
        numbers.map(Some).map_err(|_| refused("is damaged"))
    }
}

/// FNV-1a over what the filter selects: it tells filters apart, it does not protect anything.
fn fingerprint(filter: &JobFilter) -> u32 {
    let state = filter.state.map(|state| state.as_str());
    let fields =
        [state, filter.queue.as_deref(), filter.kind.as_deref()].map(|field| field.map(str::to_owned));
    // Only where they are wanted, so that the tokens of older programs stay good. Their first byte tells them apart.
    let marked = |mark: &str, text: Option<&str>| text.map(|text| Some(format!("{mark}{text}")));
    let error = marked("\u{1}", filter.error.as_deref());
    let args = marked("\u{2}", filter.args.as_ref().map(Args::as_str));
    let tag = filter.tag.clone().map(Some);
    let more = [tag, error, args].into_iter().flatten();
    let mut hash: u32 = 0x811c_9dc5;
    for field in fields.into_iter().chain(more) {
        // No name contains these bytes, so neighbours cannot be mistaken for one another.
        let ends = [if field.is_some() { 0xfe } else { 0xff }];
        for byte in field.as_deref().unwrap_or_default().bytes().chain(ends) {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    hash
}
