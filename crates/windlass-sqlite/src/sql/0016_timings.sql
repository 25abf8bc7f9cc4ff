-- What workers measure: how long jobs waited and ran, and why attempts failed. Rows are added, those of one minute put together by housekeeping, later those of one
-- quarter of an hour, and removed after 30 days. at: when the minute or quarter begins, in microseconds. wait, run: JSON, how many by the number of their
-- range. queue '*' and kind '*': not told apart. An older program works on beside this, and neither writes nor removes rows.
CREATE TABLE timing (
    at INTEGER NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    wait TEXT NOT NULL,
    run TEXT NOT NULL
) STRICT;
CREATE INDEX timing_at ON timing (at);
-- fingerprint '*': not told apart.
CREATE TABLE failure (
    at INTEGER NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    sample TEXT NOT NULL,
    last_job INTEGER NOT NULL,
    n INTEGER NOT NULL
) STRICT;
CREATE INDEX failure_at ON failure (at);
-- Up to where minutes and quarters were put together.
CREATE TABLE timing_kept (minutes INTEGER NOT NULL, quarters INTEGER NOT NULL) STRICT;
INSERT INTO timing_kept VALUES (0, 0);
-- What shut older programs out holds on.
INSERT INTO migration SELECT 16, compatible_with FROM migration ORDER BY version DESC LIMIT 1;
