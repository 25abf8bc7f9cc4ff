# Works jobs of Windlass (Elixir 1.18 or later):  WINDLASS_URL=https://jobs.example.com WINDLASS_TOKEN=wl_... elixir worker.exs
defmodule Worker do
  def handle("mail.send", %{"to" => to}, job) do
    IO.puts(:stderr, "attempt #{job["attempt"]} to send to #{to}")
    %{sent_to: to}
  end
  def handle("mail.send", _args, _job), do: raise(ArgumentError, "nobody to send it to")

  # In a process of its own: whatever ends that, and a result that is no JSON, fails this job and not the turn.
  def run(%{"receipt" => receipt} = job) do
    {_, ref} = spawn_monitor(fn -> exit({:result, JSON.encode!(handle(job["kind"], job["args"], job))}) end)
    receive do
      {:DOWN, ^ref, _, _, {:result, json}} -> %{receipt: receipt, outcome: "complete", result: JSON.decode!(json)}
      {:DOWN, ^ref, _, _, reason} -> %{receipt: receipt, outcome: "retry", error: text(Exception.format_exit(reason))}
    end
  end
  def text(bytes), do: bytes |> String.chunk(:valid) |> Enum.filter(&String.valid?/1) |> Enum.join("?")

  def call(method, path, body \\ nil) do
    url = to_charlist(System.fetch_env!("WINDLASS_URL") <> "/work/v1/workers" <> path)
    headers = [{~c"authorization", to_charlist("Bearer " <> System.fetch_env!("WINDLASS_TOKEN"))}]
    request = if body, do: {url, headers, ~c"application/json", JSON.encode!(body)}, else: {url, headers}
    tls = if List.starts_with?(url, ~c"https:"), do: [ssl: :httpc.ssl_verify_host_options(true)], else: []
    case :httpc.request(method, request, [timeout: 40_000, autoredirect: false] ++ tls, body_format: :binary) do
      {:ok, {{_, 204, _}, _, _}} -> :left
      {:ok, {{_, status, _}, _, text}} when status in 200..299 -> JSON.decode!(text)
      {:ok, {{_, 410, _}, _, _}} -> :gone # this worker is not known any more: register anew
      {:ok, {{_, status, _}, _, text}} when status == 429 or status >= 500 -> {:again, text}
      {:ok, {_, _, text}} -> raise(text) # what we say is wrong, and stays wrong
      {:error, reason} -> {:again, inspect(reason)}
    end
  end

  # One job after the other, so the lease covers a whole turn, and so does the time limit.
  def loop(myself, me \\ nil, done \\ [], again \\ false) do
    case {me, done, :persistent_term.get(:stop, false)} do
      {nil, [], true} -> :left
      {_, [], true} -> call(:delete, "/#{me}") # if nobody hears it, the lease ends by itself
      {nil, _, _} -> call(:post, "", myself) |> go_on(myself, me, done)
      {_, _, true} -> call(:post, "/#{me}/turn", %{done: done, want: %{}}) |> go_on(myself, me, done)
      _ -> call(:post, "/#{me}/turn", %{done: done, wait_s: 20, again: again}) |> go_on(myself, me, done)
    end
  end

  def go_on(%{"worker" => me}, myself, _, _), do: loop(myself, me)
  def go_on(%{"jobs" => jobs}, myself, me, _), do: loop(myself, me, Enum.map(jobs, &run/1))
  def go_on(:gone, myself, _, _), do: loop(myself) # others have its jobs by now

  def go_on({:again, why}, myself, me, done) do
    IO.puts(:stderr, "trying again: #{why}")
    Process.sleep(1000)
    loop(myself, me, done, true) # settling twice is harmless
  end
end

for app <- [:inets, :ssl], do: {:ok, _} = Application.ensure_all_started(app)
:gen_event.delete_handler(:erl_signal_server, :erl_signal_handler, []) # it would end Erlang in the middle of a job
{:ok, _} = System.trap_signal(:sigterm, fn -> :persistent_term.put(:stop, true) end)
{:ok, host} = :inet.gethostname()
Worker.loop(%{name: "#{host}:#{System.pid()}", queues: %{default: 10}, kinds: ["mail.send"], lease_s: 300, timeout_ms: 240_000})
