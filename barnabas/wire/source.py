"""Python source under construction, shared by the compilers of message code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any


class Source:
    """Lines, their indentation, and the names that they may use.

    Typed source says of what type its variables are, and names classes by the modules that they are in: it is compiled
    with mypyc, where the other is executed.
    """

    def __init__(self, names: dict[str, Any], *, is_typed: bool = False) -> None:
        self.names = dict(names)
        self.is_typed = is_typed
        self._lines: list[str] = []
        self._indent = 0
        self._numbers: dict[str, int] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write `head` and an indented block; `pass` if it is empty, as for a struct without fields."""
        self.line(head)
        lines_before = len(self._lines)
        self._indent += 1
        yield
        if len(self._lines) == lines_before:
            self.line("pass")
        self._indent -= 1

    def fresh(self, prefix: str) -> str:
        """Return a variable name that is used nowhere else in this source."""
        number = self._numbers.get(prefix, 0)
        self._numbers[prefix] = number + 1
        return f"{prefix}{number}"

    def constant(self, prefix: str, value: Any) -> str:
        """Make `value` a global; the same value gets the same name."""
        for name, known in self.names.items():
            if name.startswith(prefix) and type(known) is type(value) and known == value:
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def message_class(self, message: type[Any]) -> str:
        """Return the expression of a class."""
        if self.is_typed:
            return f"{message.__module__.rpartition('.')[2]}.{message.__name__}"
        return self.constant(message.__name__, message)

    def new_object(self, message: type[Any]) -> str:
        """Return the expression of an object whose fields are assigned next.

        What executes this leaves out `__init__`: each class has a `__new__`, since compiled classes have one of their
        own. In C, `__init__` is a call like others.
        """
        if self.is_typed:
            return f"{self.message_class(message)}()"
        name = f"new_{message.__name__}"
        self.names[name] = message.__new__
        return f"{name}({self.message_class(message)})"

    def declared(self, name: str, type_text: str) -> str:
        """Return a variable as its first assignment has it."""
        return f"{name}: {type_text}" if self.is_typed else name

    def struct_method(self, method: str, formats: str) -> str:
        """Bind `Struct(">" + formats).pack` or `.unpack_from` as a global, once."""
        name = f"{method}_{formats}".replace("?", "o")
        if name not in self.names:
            self.names[name] = getattr(Struct(">" + formats), method)
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def function(self, name: str, origin: str) -> Callable[..., Any]:
        """Compile the source and return its function `name`; `origin` is its file name in tracebacks."""
        exec(compile(self.text(), f"<{origin}>", "exec"), self.names)
        function: Callable[..., Any] = self.names[name]
        return function
