//! A TCP proxy that understands the PostgreSQL protocol and breaks it on request.
