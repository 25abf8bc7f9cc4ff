# Works jobs of Windlass:  windlass work --stdio 'exec ruby worker.rb' --processes 2
require "json"

PROTOCOL = $stdout.dup
$stdout.reopen($stderr) # what a handler prints goes to the log

def say(message)
  PROTOCOL.puts(JSON.generate(message))
  PROTOCOL.flush
end

HANDLERS = {
  "mail.send" => lambda do |args, job|
    to = args.fetch("to") { raise ArgumentError, "nobody to send it to" }
    say(type: "log", ticket: job["ticket"], text: "attempt #{job["attempt"]}")
    say(type: "progress", ticket: job["ticket"], percent: 50, note: "handing it over")
    { sent_to: to }
  end
}

say(type: "ready", protocol: 1, kinds: HANDLERS.keys)
$stdin.set_encoding("UTF-8").each_line do |line|
  job = JSON.parse(line)
  next unless job["type"] == "job"
  begin
    result = HANDLERS.fetch(job["kind"]).call(job["args"], job)
    say(type: "complete", ticket: job["ticket"], result: result)
  rescue StandardError, ScriptError, SystemStackError => error
    say(type: "retry", ticket: job["ticket"], error: "#{error.class}: #{error.message.dup.force_encoding("UTF-8").scrub}")
  end
end
