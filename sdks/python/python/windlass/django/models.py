"""No models; Django tells of its ``migrate`` only apps that have this module."""
