-- The audit log: who changed what. Rows are added and, when they are too old or too many, removed; never changed. at, audit_retention: in microseconds.
-- filter: JSON. An older program works on beside this, and neither writes nor removes entries.
CREATE TABLE audit_entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    role TEXT,
    via TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    filter TEXT,
    reason TEXT,
    count INTEGER,
    outcome TEXT NOT NULL,
    request_id TEXT
) STRICT;
CREATE INDEX audit_at ON audit_entry (at, id);
CREATE INDEX audit_actor ON audit_entry (actor, at, id);
CREATE INDEX audit_action ON audit_entry (action, at, id);
CREATE INDEX audit_target ON audit_entry (target, at, id);
ALTER TABLE setting ADD COLUMN audit_retention INTEGER NOT NULL DEFAULT 34560000000000;
INSERT INTO migration VALUES (13, 6);
