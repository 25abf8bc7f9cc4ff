# Module JSON for Elixir before 1.18, which has none: as much of it as the examples use, by Erlang's jiffy.
if not Code.ensure_loaded?(JSON) do
  defmodule JSON do
    def encode!(term), do: IO.iodata_to_binary(:jiffy.encode(term, [:use_nil]))
    def decode!(text), do: :jiffy.decode(text, [:return_maps, :use_nil])
  end
end
