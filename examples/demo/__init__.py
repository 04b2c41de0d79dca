"""The demo that `make demo` shows: a killed writer, a gateway that is killed in mid-turn, and questions to its log."""
