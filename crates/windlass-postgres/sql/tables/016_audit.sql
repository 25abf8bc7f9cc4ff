-- The audit log: who changed what. Written by append_audit, read by audit_page and view audit, removed by forget_audit (sql/functions/80_audit.sql), never
-- changed. login: the role of PostgreSQL that wrote the entry, whoever it names. No part of the queue touches it.
CREATE TABLE {schema}.audit_entry (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor      text COLLATE "C" NOT NULL,
    role       text COLLATE "C",
    via        text COLLATE "C" NOT NULL,
    action     text COLLATE "C" NOT NULL,
    target     text COLLATE "C" NOT NULL,
    filter     json,
    reason     text,
    count      bigint,
    outcome    text COLLATE "C" NOT NULL,
    request_id text COLLATE "C",
    login      text NOT NULL DEFAULT session_user
);
CREATE INDEX audit_at ON {schema}.audit_entry (at, id);
CREATE INDEX audit_actor ON {schema}.audit_entry (actor, at, id);
CREATE INDEX audit_action ON {schema}.audit_entry (action, at, id);
CREATE INDEX audit_target ON {schema}.audit_entry (target, at, id);

-- One row: how long entries are kept, and how many.
CREATE TABLE {schema}.audit_setting (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    retention interval NOT NULL DEFAULT '400 days',
    most      bigint NOT NULL DEFAULT 1000000
);
INSERT INTO {schema}.audit_setting DEFAULT VALUES;
