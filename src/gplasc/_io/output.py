"""Standard output and standard error that may be closed, full, or without a reader."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import IO, Any, cast


class _Tolerant:
    """Drops what cannot be written, so that a computation goes on when nobody reads its progress."""

    def __init__(self, stream: IO[str] | None) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Write a text; signs that the encoding lacks are escaped."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._try("write", text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        self._try("flush")

    def isatty(self) -> bool:
        """Tell whether somebody watches."""
        return self._stream is not None and self._stream.isatty()

    def _try(self, name: str, *arguments: str) -> None:
        if self._stream is None:
            return
        try:
            getattr(self._stream, name)(*arguments)
        except OSError as error:
            self.error = self.error or error
            with suppress(OSError):  # what is buffered would be written again at the end of the process
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def tolerant(stream: IO[str] | None) -> IO[str]:
    """Return a stream that drops what cannot be written to this one; its attribute ``error`` says why."""
    return cast(IO[str], stream if isinstance(stream, _Tolerant) else _Tolerant(stream))
