"""`make bench-check`: is this work tree slower than an earlier version? Short pairs on the same machine, alternating."""
