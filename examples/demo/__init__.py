"""The demo that `make demo` shows: a killed writer, and a gateway that is killed in mid-turn and goes on."""
