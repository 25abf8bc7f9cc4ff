#!/bin/sh
# Works jobs of Windlass, with jq:  windlass work --stdio 'exec sh worker.sh' --processes 2

mail_send() { # its stdin: the args; its stdout: the result; its stderr: the log, and its last line the error
    to=$(jq -er '.to') || { echo 'nobody to send it to' >&2; return 1; }
    printf '%s' "$to" | jq -cRs '{sent_to: .}'
}

errors=$(mktemp) && trap 'rm -f "$errors"' EXIT
echo '{"type":"ready","protocol":1,"kinds":["mail.send"]}'
while IFS= read -r line; do
    eval "$(printf '%s' "$line" | jq -r '@sh "type=\(.type) kind=\(.kind) ticket=\(.ticket) attempt=\(.attempt) args=\(.args | tojson)"')"
    [ "$type" = job ] || continue
    jq -cn --argjson ticket "$ticket" --arg text "attempt $attempt" '{type: "log", $ticket, $text}, {type: "progress", $ticket, percent: 50, note: "handing it over"}'
    case $kind in
    mail.send) result=$(printf '%s' "$args" | mail_send 2>"$errors") ;;
    *) echo "no handler for $kind" >"$errors"; false ;;
    esac && printf '%s' "${result:-null}" | jq -cn --argjson ticket "$ticket" '{type: "complete", $ticket, result: input}' 2>>"$errors" ||
        tail -n 1 "$errors" | jq -cRs --argjson ticket "$ticket" '{type: "retry", $ticket, error: rtrimstr("\n")}'
done
