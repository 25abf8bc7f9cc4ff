# Works jobs of Windlass, 10 at once (Elixir 1.18 or later):  windlass work --stdio 'exec elixir worker.exs'
defmodule Worker do
  def handle("mail.send", %{"to" => to}, job) do
    say(%{type: "log", ticket: job["ticket"], text: "attempt #{job["attempt"]}"})
    say(%{type: "progress", ticket: job["ticket"], percent: 50, note: "handing it over"})
    %{sent_to: to}
  end

  def handle("mail.send", _args, _job), do: raise(ArgumentError, "nobody to send it to")

  # The handler has a process of its own: whatever ends that, as a crash of what it is linked to, is told.
  def run(%{"ticket" => ticket} = job) do
    {_, ref} =
      spawn_monitor(fn ->
        say(%{type: "complete", ticket: ticket, result: handle(job["kind"], job["args"], job)})
        exit(:said)
      end)

    receive do
      {:DOWN, ^ref, _, _, :said} -> :ok
      {:DOWN, ^ref, _, _, reason} -> say(%{type: "retry", ticket: ticket, error: text(Exception.format_exit(reason))})
    end
  end

  # Errors may have bytes that are no text.
  def text(bytes), do: bytes |> String.chunk(:valid) |> Enum.filter(&String.valid?/1) |> Enum.join("?")

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
