"""What commands share on the terminal: options, tables, and errors as one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from barnabas_cli.local.layout import ClusterDirectory

Command = TypeVar("Command", bound=Callable[..., Any])


def data_dir_option(command: Command) -> Command:
    return click.option(
        "--data-dir",
        "directory",
        default="./data",
        show_default=True,
        callback=lambda _context, _option, value: ClusterDirectory(Path(value).absolute()),
        help="Directory of the cluster.",
    )(command)


def key_and_value(text: str) -> tuple[str, str]:
    """Split KEY=VALUE. Raises click's error if the text is not of that form."""
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text} is not KEY=VALUE")
    return key, value


@contextmanager
def clear_errors(*expected: type[Exception]) -> Iterator[None]:
    """Turn expected errors into `error: …` on stderr and exit code 1."""
    try:
        yield
    except expected as error:
        message = "\n".join([printable(line) for line in str(error).split("\n")])
        click.secho(f"error: {message}", fg="red", err=True)
        raise SystemExit(1) from None


def printable(text: str) -> str:
    """Replace what steers a terminal by its escape: names and values come from others."""
    return text if text.isprintable() else "".join([c if c.isprintable() else ascii(c)[1:-1] for c in text])


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns as wide as their widest cell; the last one is not padded."""
    cells = [[printable(str(cell)) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for number, row in enumerate(cells):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        click.secho(line, bold=number == 0)
