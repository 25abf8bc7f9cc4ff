-- How far claims of keyed queues have looked ahead of where their lane is read, for jobs of other keys than those that fill it: see look_ahead. Replaced like rows of
-- key_room. from_snapshot, to_snapshot, end_xid, end_id: as those of a claim. keys: of these keys jobs were left where they are; NULL: it was given up, until the lane is
-- read beyond.
CREATE TABLE {schema}.key_lookahead (
    n             bigint NOT NULL DEFAULT nextval('{schema}.key_turn_seq'),
    end_xid       xid8,
    end_id        bigint,
    lane_id       integer NOT NULL,
    from_snapshot pg_snapshot NOT NULL,
    to_snapshot   pg_snapshot NOT NULL,
    keys          text[],
    PRIMARY KEY (lane_id, n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
