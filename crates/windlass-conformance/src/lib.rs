//! The storage contract of Windlass as one suite of tests that every store runs.
