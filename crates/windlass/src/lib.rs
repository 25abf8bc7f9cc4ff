//! A durable background-job queue: typed jobs, handlers, clients and workers.
