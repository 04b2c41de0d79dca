"""Lines: first come first served, and nobody waits for somebody who is not there any more."""

import gc
import threading

from engine.lines import Lines, Place


def test_a_thread_that_stands_in_a_line_cannot_join_it_again() -> None:
    lines, place = Lines(), Place()
    assert lines.join("a", place)
    assert not lines.join("a", Place())
    assert lines.join("b", Place())
    place.left = True
    assert lines.join("a", Place())


def standing(lines: Lines) -> Place:
    """Return the place of another thread."""
    places: list[Place] = []

    def stand() -> None:
        places.append(Place())
        assert lines.join("a", places[0])

    thread = threading.Thread(target=stand)
    thread.start()
    thread.join()
    return places[0]


def test_places_come_to_the_head_in_the_order_they_were_taken() -> None:
    lines = Lines()
    first, mine = standing(lines), Place()
    assert lines.join("a", mine)
    last = standing(lines)
    assert lines.wait("a", first, 0)
    assert not lines.wait("a", mine, 0.01)
    first.left = True
    lines.look("a")
    assert lines.wait("a", mine, 0)
    assert not lines.wait("a", last, 0)


def test_a_place_that_was_dropped_or_left_without_a_word_holds_nobody_up() -> None:
    lines = Lines()
    dropped, silent, mine = standing(lines), standing(lines), Place()
    assert lines.join("a", mine)
    del dropped
    gc.collect()
    silent.left = True
    assert lines.wait("a", mine, 10)


def test_a_line_nobody_stands_in_is_forgotten() -> None:
    lines, place = Lines(), Place()
    lines.join("a", place)
    place.left = True
    lines.look("a")
    assert not lines._waiting
