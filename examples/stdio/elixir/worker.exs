# Works jobs of Windlass, 10 at once (Elixir 1.18 or later):  windlass work --stdio 'exec elixir worker.exs'
defmodule Worker do
  def handle("mail.send", %{"to" => to}, job) do
    say(%{type: "log", ticket: job["ticket"], text: "attempt #{job["attempt"]}"})
    say(%{type: "progress", ticket: job["ticket"], percent: 50, note: "handing it over"})
    %{sent_to: to}
  end

  def handle("mail.send", _args, _job), do: raise(ArgumentError, "nobody to send it to")

  def run(%{"ticket" => ticket} = job) do
    result = handle(job["kind"], job["args"], job)
    say(%{type: "complete", ticket: ticket, result: result})
  catch
    kind, reason -> say(%{type: "retry", ticket: ticket, error: Exception.format_banner(kind, reason, __STACKTRACE__)})
  end

  def say(message), do: IO.write(:user, [JSON.encode!(message), "\n"])

  def loop(supervisor) do
    with line when is_binary(line) <- IO.read(:user, :line) do
      case JSON.decode!(line) do
        %{"type" => "job"} = job -> Task.Supervisor.start_child(supervisor, fn -> run(job) end)
        _cancel_or_drop -> :ignored
      end

      loop(supervisor)
    end
  end
end

:ok = :io.setopts(:user, encoding: :unicode) # whatever the locale
Process.group_leader(self(), Process.whereis(:standard_error)) # what a handler prints goes to the log
{:ok, supervisor} = Task.Supervisor.start_link()
Worker.say(%{type: "ready", protocol: 1, concurrency: 10, kinds: ["mail.send"]})
Worker.loop(supervisor)
for pid <- Task.Supervisor.children(supervisor), ref = Process.monitor(pid) do
  receive do: ({:DOWN, ^ref, _, _, _} -> :ended)
end
