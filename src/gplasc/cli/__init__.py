"""The command line: commands by import path, and the exit codes.

A command is imported when it is used, and what it computes with when it runs, so that ``--help`` is quick. Command
``NAME`` is the function ``_NAME`` of a file; what other code calls is the command line.
"""

from __future__ import annotations

import atexit
import gc
import sys
import tempfile
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from typing import NoReturn

from cyclopts import App, CycloptsError, Group, Parameter

import gplasc
from gplasc._io.output import tolerant
from gplasc._io.text import printable
from gplasc.cli._options import Launch
from gplasc.cli._parser import FORMATTER, explain
from gplasc.errors import Interrupted, UserError

_COMMANDS = {
    "Compare methods": "demo run compare sweep tune reproduce report",
    "Classify your images": "learn predict evaluate info rollback forget rename merge export features",
    "Inspect and check": "list show runs data check completion",
}
_FILES = {  # of commands that share the file of another one
    "completion": "check", "demo": "report", "evaluate": "predict", "export": "info", "features": "data",
    "forget": "learn", "list": "show", "merge": "learn", "rename": "learn", "reproduce": "compare",
    "rollback": "learn", "runs": "show", "tune": "sweep",
}  # fmt: skip


def _build_app() -> App:
    parameter = Parameter(negative=(), consume_multiple=True, allow_repeating=False, show_default=False)
    app = App(
        "gplasc",
        help="Class-incremental learning with contrastive and replay methods, and GPLASC as a plug-in for all "
        "of them. `gplasc COMMAND --help` explains a command.",
        version=f"gplasc {gplasc.__version__}",
        version_flags=["--version"],
        help_format="plaintext",
        help_formatter=FORMATTER,
        default_parameter=parameter,
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    for title, names in _COMMANDS.items():
        group = Group.create_ordered(title)
        for place, name in enumerate(names.split()):
            file = f"gplasc.cli.{_FILES.get(name, name)}"
            app.command(f"{file}:_{name}", name=name, group=group, sort_key=place)
    app["--help"].group = app["--version"].group = Group.create_ordered("Options")
    return app


app = _build_app()
atexit.register(gc.freeze)  # the last collection would look at every object of torch, for half a second


def main(words: list[str] | None = None) -> NoReturn:
    """Run ``gplasc`` and exit.

    The exit code is 0 when all is done, 1 when a check or a run failed, 2 for a mistake of the user, 3 for an
    update that was refused, 130 when interrupted.
    """
    warnings.showwarning = lambda message, *_: print(f"gplasc: note: {message}", file=sys.stderr)
    words = sys.argv[1:] if words is None else words
    with redirect_stdout(tolerant(sys.stdout)) as out, redirect_stderr(tolerant(sys.stderr)):
        code = _run(words)
        out.flush()
        error: OSError | None = out.error  # type: ignore[attr-defined]
        if code == 0 and error and not isinstance(error, BrokenPipeError):  # `head` has read what it wanted
            code = _say(f"gplasc: standard output cannot be written ({error.strerror}); make room", 1)
    sys.exit(code)


def _run(words: list[str]) -> int:
    """Run a command and return the exit code."""
    try:
        if not words:
            raise UserError("no command was given; `gplasc --help` lists them")
        if words[0] in app.help_flags:
            app.resolved_commands()  # the list shows the first line of each
        code: int | Launch = app(words) or 0
        if isinstance(code, Launch):
            from gplasc.learning.launch import launch

            return launch(words, code.processes)
        return code
    except CycloptsError as error:
        return _say(f"gplasc: {explain(error)}", 2)
    except UserError as error:
        return _say(f"gplasc: {printable(str(error), lines=False)}", 2)
    except Interrupted:
        return _say("interrupted and saved; run the same command again to continue", 130)
    except KeyboardInterrupt:
        return _say("gplasc: interrupted", 130)
    except Exception as error:
        from gplasc.settings.components import error_in_user_file

        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        if text := error_in_user_file(error):
            return _say(f"gplasc: {text} (the trace is in {_save_trace()})", 2)
        return _say(f"gplasc: unexpected {reason} (the trace is in {_save_trace()}; please report it)", 1)


def _say(text: str, code: int) -> int:
    print(printable(text, lines=False), file=sys.stderr)
    return code


def _save_trace() -> str:
    with tempfile.NamedTemporaryFile("w", prefix="gplasc-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return file.name
