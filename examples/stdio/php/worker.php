<?php
// Works jobs of Windlass:  windlass work --stdio 'exec php worker.php' --processes 2

function say(array $message, int $flags = 0): void {
    fwrite(STDOUT, json_encode($message, JSON_THROW_ON_ERROR | $flags) . "\n");
}

$handlers = [
    'mail.send' => function (object $args, object $job): array {
        $to = $args->to ?? throw new InvalidArgumentException('nobody to send it to');
        say(['type' => 'log', 'ticket' => $job->ticket, 'text' => "attempt $job->attempt"]);
        say(['type' => 'progress', 'ticket' => $job->ticket, 'percent' => 50, 'note' => 'handing it over']);
        return ['sent_to' => $to];
    },
];

ob_start(function (string $printed): string { // what a handler prints goes to the log
    fwrite(STDERR, $printed);
    return '';
}, 1);
say(['type' => 'ready', 'protocol' => 1, 'kinds' => array_keys($handlers)]);
while (($line = fgets(STDIN)) !== false) {
    $job = json_decode($line, flags: JSON_THROW_ON_ERROR);
    if ($job->type !== 'job') {
        continue;
    }
    try {
        $result = $handlers[$job->kind]($job->args, $job);
        say(['type' => 'complete', 'ticket' => $job->ticket, 'result' => $result]);
    } catch (Throwable $error) {
        say(['type' => 'retry', 'ticket' => $job->ticket, 'error' => $error::class . ': ' . $error->getMessage()], JSON_INVALID_UTF8_SUBSTITUTE);
    }
}
