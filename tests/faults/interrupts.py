"""KeyboardInterrupts at an exact place: before the n-th bytecode of chosen code, in this thread and once."""

import dis
import gc
import inspect
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType, TracebackType
from typing import Any

_CALLS = ("PRECALL", "CALL")
_RELEASE = 3
"""A block of `with` that ends well calls __exit__ with this many constants."""


class InterruptedAt:
    """Raise KeyboardInterrupt before the n-th bytecode of the code that is chosen, and pass over it at the end.

    The garbage collector waits: an interrupt inside what it finalises would be passed over and prove nothing.
    """

    def __init__(self, number: int, chosen: Callable[[CodeType], bool]) -> None:
        self.left = number
        self._chosen = chosen

    def __enter__(self) -> "InterruptedAt":
        self._before = sys.gettrace()
        gc.disable()
        sys.settrace(self._call)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        sys.settrace(self._before)
        gc.enable()
        return kind is KeyboardInterrupt

    def _call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if not self._chosen(frame.f_code) or _finalises(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._opcode

    def _opcode(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "opcode" and frame.f_lasti not in _unbreakable(frame.f_code):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self._opcode


def _finalises(frame: FrameType | None) -> bool:
    """Return True if an error here is passed over: in a finaliser, or in a generator, which may be being closed."""
    if frame is not None and frame.f_code.co_flags & inspect.CO_GENERATOR:
        return True
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


@cache
def _unbreakable(code: CodeType) -> frozenset[int]:
    """Return where a `with` block is about to release what it holds, and where a function is about to return.

    The interpreter takes signals after calls, at the beginning of functions and at the end of loops, never here: an
    interrupt here would leave any lock taken and lose any answer, whatever the code around it does.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    found = {step.offset for step in steps if step.opname == "RETURN_VALUE"}
    for index, step in enumerate(steps):
        before = steps[max(index - _RELEASE, 0) : index]
        if step.opname in _CALLS and all(each.opname == "LOAD_CONST" and each.argval is None for each in before):
            swapped = [each for each in steps[max(index - _RELEASE - 1, 0) : index] if each.opname == "SWAP"]
            found.update(each.offset for each in [*swapped, *before, step, *steps[index + 1 : index + 2]])
    return frozenset(found)


def in_files(*names: str) -> Callable[[CodeType], bool]:
    """Choose all code of these files."""
    return lambda code: code.co_filename.endswith(names)


def in_class(file: str, name: str) -> Callable[[CodeType], bool]:
    """Choose the methods of one class of a file."""
    return lambda code: code.co_filename.endswith(file) and code.co_qualname.startswith(f"{name}.")
