"""The command line: a verb per file. `main` is the entry point; no input ends in a traceback."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, TextIO

OK, FINDINGS, UNREADABLE = 0, 1, 2  # the exit statuses of every verb
INTERRUPTED = 130

_TRACEBACK = "TSGEN_TRACEBACK"


def main() -> NoReturn:
    """Runs the command line of this process and exits with its status."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit status. Whatever goes wrong becomes a message on stderr."""
    gc.set_threshold(200_000)  # a short life with few cycles: collecting would take a tenth of it
    warnings.simplefilter("ignore", SyntaxWarning)  # of `ast` about a spec's expressions, which have findings of ours
    import click

    from tsgen.cli.app import tsgen

    _accept_any_text()
    try:
        status = tsgen.main(list(arguments), prog_name="tsgen", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else OK
    except click.ClickException as e:
        with _stderr():
            e.show()
        return UNREADABLE
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone: nobody is left to tell
        _discard(sys.stdout)
        return FINDINGS
    except OSError as e:  # a full disk, no more processes or open files: nothing in tsgen is wrong
        if os.environ.get(_TRACEBACK):
            raise
        _discard(sys.stdout)
        _say(f"{e.filename or 'writing the output'}: {e.strerror or e}")
        return UNREADABLE
    except Exception as e:
        return _out_of_memory(e) if _is_out_of_memory(e) else _internal_error(e)


def _discard(stream: TextIO) -> None:
    """Lets what a stream still holds go nowhere: Python would try to write it once more on exit, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _stderr() -> Iterator[None]:
    """Writing to stderr, which may be as full as stdout: then the exit status alone tells."""
    try:
        yield
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def _say(message: str) -> None:
    with _stderr():
        print(f"tsgen: {message}", file=sys.stderr)


def _is_out_of_memory(e: Exception) -> bool:
    """Whether this machine is too small: also by PyTorch's word, which is only imported where it is needed."""
    return isinstance(e, MemoryError) or type(e).__name__ == "OutOfMemoryError"


def _out_of_memory(e: Exception) -> int:
    if os.environ.get(_TRACEBACK):
        raise e
    reason = " ".join(str(e).split())[:200]
    _say(f"not enough memory{f': {reason}' if reason else ''}\n  = help: smaller dims (--shape) need less")
    return UNREADABLE


def _accept_any_text() -> None:
    """Lets text that the terminal's encoding lacks print as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _internal_error(e: Exception) -> int:
    if os.environ.get(_TRACEBACK):
        raise e
    frame = e.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f" ({os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno})" if frame is not None else ""
    message = " ".join(str(e).split())[:300]
    _say(
        f"internal error: {type(e).__name__}: {message}{place}. This is a bug in tsgen: please report it with "
        f"the command, the spec and the output of the same command with {_TRACEBACK}=1 set."
    )
    return UNREADABLE
