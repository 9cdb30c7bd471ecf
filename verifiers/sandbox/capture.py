"""What a program prints, taken in constant memory."""

from __future__ import annotations

import os

_TAIL = 2000
"""Bytes that a report shows."""


class Capture:
    """The output that comes through a pipe: at most `limit` bytes are kept, and a last part to show."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.data = bytearray()
        self.too_much = False
        self._tail = b""

    def drain(self) -> bool:
        """Take what is there. False when no more can come."""
        while True:
            try:
                data = os.read(self.reader, 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                return False
            if len(self.data) + len(data) <= self._limit:
                self.data += data
            else:
                self.too_much = True
            self._tail = (self._tail + data)[-_TAIL:]
            if self.too_much:
                return True

    def tail(self) -> str:
        return self._tail.decode("utf-8", "replace")

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.close_writer()
        os.close(self.reader)
