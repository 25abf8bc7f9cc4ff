//! When schedules tick, and what a look at one leads to.
mod daylight;
mod decisions;
mod expressions;
mod grammar;
