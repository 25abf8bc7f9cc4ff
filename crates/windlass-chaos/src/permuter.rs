//! All orders of the statements of two or three sessions.
