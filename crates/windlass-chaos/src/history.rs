//! What the processes of a run did, as binary events on one clock.
