//! The worker engine of Windlass: claimer, executors, settler, heartbeat, maintenance.
