<?php
// Works jobs of Windlass:  WINDLASS_URL=https://jobs.example.com WINDLASS_TOKEN=wl_... php worker.php
$workers = getenv('WINDLASS_URL') . '/work/v1/workers';
$handlers = [
    'mail.send' => function (object $args, object $job, callable $tell): array {
        $to = $args->to ?? throw new InvalidArgumentException('nobody to send it to');
        $tell(percent: 50, note: 'handing it over', log: ["attempt $job->attempt"]);
        return ['sent_to' => $to];
    },
];
// One job after the other, so the lease covers a whole turn, and so does the time limit.
$myself = ['name' => gethostname() . ':' . getmypid(), 'queues' => ['default' => 10], 'kinds' => array_keys($handlers), 'lease_s' => 300, 'timeout_ms' => 240_000];
class Gone extends Exception {}

function call(string $method, string $url, ?array $body = null): ?object {
    $headers = ['Content-Type: application/json', 'Authorization: Bearer ' . getenv('WINDLASS_TOKEN')];
    $content = $body === null ? '' : json_encode($body, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE);
    $http = ['method' => $method, 'timeout' => 40, 'ignore_errors' => true, 'header' => $headers, 'content' => $content];
    $text = @file_get_contents($url, false, stream_context_create(['http' => $http]));
    $status = $text === false ? 0 : (int) explode(' ', $http_response_header[0])[1];
    return match (true) {
        $status === 410 => throw new Gone(), // this worker is not known any more: register anew
        $status < 200, $status === 429, $status >= 500 => throw new RuntimeException($text ?: "no answer from $url"),
        $status >= 400 => fwrite(STDERR, "$text\n") && exit(1), // what we say is wrong, and stays wrong
        default => $text === '' ? null : json_decode($text, flags: JSON_THROW_ON_ERROR),
    };
}

function tell(string $me, object $job, array $report): void { // what goes wrong here, the next turn says, too
    try { $said = call('POST', "$me/beat", ['reports' => [['receipt' => $job->receipt, ...$report]]]); } catch (Gone|RuntimeException) { return; }
    in_array($job->receipt, $said->cancel) && throw new Exception('told to stop'); // somebody wants it cancelled, or its time is over
}

[$me, $done, $again, $stop] = [null, [], false, false];
if (function_exists('pcntl_signal') && pcntl_signal(SIGTERM, function () use (&$stop) { $stop = true; })) pcntl_async_signals(true);
while (!$stop || $done) {
    try {
        $me ??= call('POST', $workers, $myself)->worker;
        $turn = $stop ? ['done' => $done, 'want' => (object) []] : ['done' => $done, 'wait_s' => 20, 'again' => $again];
        $jobs = call('POST', "$workers/$me/turn", $turn)->jobs;
    } catch (Gone) {
        [$me, $done, $again] = [null, [], false]; // others have its jobs by now
        continue;
    } catch (RuntimeException|JsonException $error) {
        fwrite(STDERR, "trying again: {$error->getMessage()}\n");
        $again = true; // settling twice is harmless
        sleep(1);
        continue;
    }
    for ([$done, $again] = [[], false]; $job = array_shift($jobs);) {
        try {
            $result = $handlers[$job->kind]($job->args, $job, fn (mixed ...$report) => tell("$workers/$me", $job, $report));
            json_encode($result, JSON_THROW_ON_ERROR, 64); // where it is no JSON this job fails, and not the turn with all others
            $done[] = ['receipt' => $job->receipt, 'outcome' => 'complete', 'result' => $result];
        } catch (Throwable $error) {
            $done[] = ['receipt' => $job->receipt, 'outcome' => 'retry', 'error' => $error::class . ': ' . $error->getMessage()];
        }
    }
}
try { $me && call('DELETE', "$workers/$me"); } catch (Gone|RuntimeException) {} // the lease ends by itself
