-- acted(action, target, reply, filter): notes what somebody did in the audit log, where the transaction or session says who acts: SET LOCAL windlass.actor = 'anna'. The entry is part of the
-- transaction of the change, so that one goes with the other. Answers with the reply, whatever it is.
-- Cost: without an actor a look at a setting.
CREATE OR REPLACE FUNCTION {schema}.acted(p_action text, p_target text, p_reply text DEFAULT NULL, p_filter json DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_actor text := nullif(current_setting('windlass.actor', true), '');
BEGIN
    IF v_actor IS NOT NULL THEN
        PERFORM {schema}.append_audit(json_build_array(json_build_object('actor', v_actor, 'action', p_action, 'target', p_target, 'filter', p_filter)));
    END IF;
    RETURN p_reply;
END $$;
