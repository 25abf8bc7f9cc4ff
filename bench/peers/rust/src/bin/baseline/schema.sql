CREATE TABLE job (
    id bigserial PRIMARY KEY,
    state smallint NOT NULL DEFAULT 0, -- 0 ready, 1 claimed
    worker integer,                    -- the backend that claimed it
    kind text NOT NULL,
    args jsonb NOT NULL
);

-- Claims find the oldest ready job here, whatever else the table holds.
CREATE INDEX job_ready ON job (id) WHERE state = 0;

CREATE FUNCTION job_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NOTIFY job;
    RETURN NULL;
END $$;

-- Once for a statement, however many jobs it adds.
CREATE TRIGGER job_added AFTER INSERT ON job FOR EACH STATEMENT EXECUTE FUNCTION job_notify();
