"""Signatures and fields as they are written in the source, with the values of named defaults."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_SHOWN = (str, int, float, bool, type(None))


class Field(NamedTuple):
    """A field of a struct: its name, type, default and what its docstring says."""

    name: str
    kind: str
    default: str
    meaning: str


def signature(function: Callable[..., Any], name: str = "") -> str:
    """Return a function's call and its result, without `self` and `cls`."""
    function = inspect.unwrap(function)
    node = _function(function)
    awaited = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    gives = "" if node.returns is None or name else f" -> {_kind(node.returns)}"
    return f"{awaited}{name or node.name}({', '.join(_listed(node.args, function.__globals__))}){gives}"


def result(function: Callable[..., Any]) -> str:
    """Return a property's name and type."""
    node = _function(function)
    return f"{node.name}: {_kind(node.returns)}"


def _listed(arguments: ast.arguments, scope: dict[str, Any]) -> Iterator[str]:
    """Yield the parameters as a call's reader needs them, the mark of those that have names only among them."""
    for each, default in _with_defaults(arguments):
        if each is next(iter(arguments.kwonlyargs), None):
            yield "*"
        kind = "" if each.annotation is None else f": {_kind(each.annotation)}"
        yield each.arg + kind + ("" if default is None else f" = {_value(default, scope)}")
        if each is next(reversed(arguments.posonlyargs), None):
            yield "/"
    if arguments.vararg is not None:
        yield f"*{arguments.vararg.arg}"
    if arguments.kwarg is not None:
        yield f"**{arguments.kwarg.arg}"


def _with_defaults(arguments: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    plain = [each for each in (*arguments.posonlyargs, *arguments.args) if each.arg not in ("self", "cls")]
    missing: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    pairs = zip(plain, [*missing, *arguments.defaults], strict=True)
    return [*pairs, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]


def parameters(function: Callable[..., Any]) -> list[Field]:
    """Return a function's parameters; each must have a line under `Args:` in the docstring."""
    meanings, scope = _arguments(inspect.getdoc(function) or ""), function.__globals__
    return [
        Field(each.arg, _kind(each.annotation), "" if default is None else _value(default, scope), meanings[each.arg])
        for each, default in _with_defaults(_function(function).args)
    ]


def fields(struct: type) -> list[Field]:
    """Return the fields a struct's own class body declares."""
    return list(_fields(_parsed(struct)))


def members(enum: type) -> list[str]:
    """Return the values an enum's own class body gives: a host may have added others since."""
    body = getattr(_parsed(enum), "body", [])
    return [
        str(each.value.value) for each in body if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)
    ]


def _fields(node: ast.stmt) -> Iterator[Field]:
    if not isinstance(node, ast.ClassDef):
        raise TypeError("not a class")
    for index, statement in enumerate(node.body):
        if isinstance(statement, ast.AnnAssign) and not ast.unparse(statement.annotation).startswith("ClassVar"):
            following = node.body[index + 1] if index + 1 < len(node.body) else None
            yield Field(
                ast.unparse(statement.target),
                _kind(statement.annotation),
                _default(statement.value),
                _literal(following),
            )


def _default(value: ast.expr | None) -> str:
    """Return a field's default; one that a factory makes is written as its call."""
    if isinstance(value, ast.Call):
        for keyword in value.keywords:
            if keyword.arg == "default_factory":
                return f"{ast.unparse(keyword.value)}()"
    return "" if value is None else ast.unparse(value)


def _literal(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


def _arguments(docstring: str) -> dict[str, str]:
    """Return the lines under `Args:`, by name."""
    _, _, listed = docstring.partition("\nArgs:\n")
    found: dict[str, str] = {}
    name = ""
    for line in textwrap.dedent(listed).splitlines():
        if line.startswith(" "):
            found[name] += f" {line.strip()}"
        elif ":" in line:
            name, _, found[name] = line.partition(": ")
    return found


def _value(default: ast.expr, scope: dict[str, Any]) -> str:
    """Return a default as it is written, or the value of a name for one."""
    value = scope.get(default.id, ...) if isinstance(default, ast.Name) else ...
    if isinstance(default, ast.Constant):
        value = default.value
    if type(value) is int:
        return f"{value:_}"
    return repr(value) if isinstance(value, _SHOWN) else ast.unparse(default)


def _function(function: Callable[..., Any]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    node = _parsed(function)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise TypeError(f"{function!r} is not a function with a source")
    return node


def _parsed(documented: Any) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(documented))).body[0]


def _kind(annotation: ast.expr | None) -> str:
    return "" if annotation is None else ast.unparse(_Unquoted().visit(annotation))


class _Unquoted(ast.NodeTransformer):
    """An annotation with the types in it that are given as texts written as types."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return node if ast.unparse(node.value) == "Literal" else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node
