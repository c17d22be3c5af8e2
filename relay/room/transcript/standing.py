"""Which entries of the log stand in a member's file, and which bytes of it are to go.

Invariants:
- entries up to the number `upto` stand in the file. `ahead`: numbers behind it that stand there too, in a file that
  people's lines are left in as they came;
- where the file follows the log's order, a line stands only where its number is the next one. Any other line of an
  entry is to become blank, and its entry is appended as the room's own line when it is due;
- ranges are `(first, behind the last)`, in order, apart from each other.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]

_SPACES = bytes(byte if byte == 0x0A else 0x20 for byte in range(256))


def joined(ranges: Iterable[tuple[int, int]], first: int, behind: int) -> Ranges:
    """The ranges with one more."""
    made: list[tuple[int, int]] = []
    for start, stop in sorted([*ranges, (first, behind)]):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], stop))
        else:
            made.append((start, stop))
    return tuple(made)


def counted(ranges: Ranges) -> int:
    return sum(stop - start for start, stop in ranges)


def blanked(data: bytes) -> bytes:
    """As many spaces, with the line ends where they were: no reader finds anything in it."""
    return data.translate(_SPACES)


def masked(data: bytes, start: int, blank: Ranges) -> bytes:
    """The bytes of a file from its offset `start` on, as they are once what is to be blank is."""
    made = bytearray(data)
    for first, behind in blank:
        low, high = max(first - start, 0), min(behind - start, len(data))
        if low < high:
            made[low:high] = blanked(bytes(made[low:high]))
    return bytes(made)


class Standing:
    """What stands in the file, while lines are read from it in order."""

    def __init__(self, upto: int, ahead: Ranges, blank: Ranges, *, in_order: bool) -> None:
        self.upto, self.ahead, self.blank = upto, ahead, blank
        self._in_order = in_order

    def has(self, number: int) -> bool:
        """Stands this entry in what was read so far?"""
        return number <= self.upto or any(first <= number < behind for first, behind in self.ahead)

    def put(self, number: int, start: int, size: int) -> None:
        """A line at the offset `start` is the entry of this number."""
        if number == self.upto + 1:
            self.upto = number
            if self.ahead and self.ahead[0][0] == number + 1:
                self.upto, self.ahead = self.ahead[0][1] - 1, self.ahead[1:]
        elif self._in_order:
            self.drop(start, size)
        elif not self.has(number):
            self.ahead = joined(self.ahead, number, number + 1)

    def drop(self, start: int, size: int) -> None:
        """A line at the offset `start` is no entry of the room, or not here."""
        if self._in_order:
            self.blank = joined(self.blank, start, start + size + 1)
