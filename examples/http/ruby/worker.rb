# Works jobs of Windlass:  WINDLASS_URL=https://jobs.example.com WINDLASS_TOKEN=wl_... ruby worker.rb
require "json"
require "net/http"
require "socket"

WORKERS = URI("#{ENV.fetch("WINDLASS_URL")}/work/v1/workers")
HTTP = Net::HTTP.new(WORKERS.host, WORKERS.port).tap { |http| http.use_ssl = WORKERS.scheme == "https" }
# One job after the other, so the lease covers a whole turn, and so does the time limit.
ME = { name: "#{Socket.gethostname}:#{Process.pid}", queues: { default: 10 }, kinds: ["mail.send"], lease_s: 300, timeout_ms: 240_000 }
Gone = Class.new(StandardError)

HANDLERS = {
  "mail.send" => lambda do |args, job|
    to = args.fetch("to") { raise ArgumentError, "nobody to send it to" }
    tell(job, percent: 50, note: "handing it over", log: ["attempt #{job["attempt"]}"])
    { sent_to: to }
  end
}

def call(request, body = nil)
  request["Authorization"], request["Content-Type"] = "Bearer #{ENV.fetch("WINDLASS_TOKEN")}", "application/json"
  request.body = JSON.generate(body) if body
  answer = HTTP.request(request)
  case answer.code.to_i
  when 200..299 then JSON.parse(answer.body || "{}")
  when 410 then raise Gone # this worker is not known any more: register anew
  when 429, 500.. then raise IOError, answer.body
  else abort answer.body # what we say is wrong, and stays wrong
  end
end
# What goes wrong here, the next turn says, too.
def tell(job, report) = (call(Net::HTTP::Post.new("#{WORKERS.path}/#{$me}/beat"), reports: [{ receipt: job["receipt"], **report }]) rescue nil)
def run(job)
  result = HANDLERS.fetch(job["kind"]).call(job["args"], job)
  JSON.generate(result, max_nesting: 64) # where it is no JSON this job fails, and not the turn with all others
  { receipt: job["receipt"], outcome: "complete", result: result }
rescue StandardError, ScriptError, SystemStackError => error
  { receipt: job["receipt"], outcome: "retry", error: "#{error.class}: #{error.message.dup.force_encoding("UTF-8").scrub}" }
end

$me, done, again, stop = nil, [], false, false
trap("TERM") { stop = true }
until stop && done.empty?
  begin
    $me ||= call(Net::HTTP::Post.new(WORKERS.path), ME)["worker"]
    turn = { done: done, wait_s: 20, again: again }
    turn = { done: done, want: {} } if stop
    jobs = call(Net::HTTP::Post.new("#{WORKERS.path}/#{$me}/turn"), turn)["jobs"]
  rescue Gone
    $me, done, again = nil, [], false # others have its jobs by now
  rescue StandardError => error
    warn "trying again: #{error.message}"
    again = true # settling twice is harmless
    sleep 1
  else
    done, again = jobs.map { |job| run(job) }, false
  end
end
# If nobody hears it, the lease ends by itself.
call(Net::HTTP::Delete.new("#{WORKERS.path}/#{$me}")) if $me rescue nil
