"""The room in a terminal, for a person: messages scroll up, the input stays at the bottom.

This is not a full-screen program. Printed lines belong to the terminal, so its scrollback, search, selection and
copying work, and the conversation stays after leaving. Only the last lines (live part, input, completions, toolbar)
are redrawn. New lines are written together with the redraw, between the marks for synchronized output, so nothing
flickers.

Invariant: one task reads from the room and one sends, in the order of typing. Both end before `run` returns, which
lists the messages that the room has not confirmed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress
from pathlib import Path

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import AnyFormattedText, FormattedText, StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import Style

from relay.base.terminal_text import safe_line
from relay.faces.terminal.client import Down, Post, Refused, RoomClient, Wire, new_id
from relay.faces.terminal.find_room import Place, PlaceError
from relay.faces.terminal.text import Fragments, colour, note
from relay.faces.terminal.view import RoomView
from relay.faces.terminal.wrap import cropped, wrapped

STYLE = Style.from_dict(
    {
        "quiet": "fg:#808080",
        "good": "fg:#5f9f5f",
        "warn": "fg:#af8700",
        "bad": "fg:#d75f5f bold",
        "working": "fg:#0097a7",
        "bar": "fg:#808080",
        "code": "fg:#af875f",
        "toolbar": "noreverse fg:#9e9e9e bg:#262626",
        "completion-menu.completion": "fg:#9e9e9e bg:#262626",
        "completion-menu.completion.current": "fg:#ffffff bg:#005f87",
        "completion-menu.meta.completion": "fg:#808080 bg:#262626",
        "completion-menu.meta.completion.current": "fg:#ffffff bg:#005f87",
    }
)
LEAVE = ("/quit", "/exit")
#: The end of the status line, always on the screen.
_HOW_TO_LEAVE = "  /quit leaves"
#: Seconds between two redraws of what changes with time alone.
TICK_S = 0.25
#: Seconds that new lines wait for others, so that a burst is one redraw.
GATHER_S = 0.03
#: Seconds between two looks at what needs a person: at least, and at most where nothing is heard. Some of it comes by
#: time alone.
NEEDS_S = (0.5, 60.0)
#: Frames that change nothing about it. The page has the same (web/src/state/needs.ts); a test holds the two together.
_QUIET = frozenset(
    {"stream", "output", "worktree", "people", "airspace", "hello", "dispatcher", "fleet", "lock", "session"}
)


class RoomCompleter(Completer):
    """Completes names after `@`, and commands after `/` at the start."""

    def __init__(self, view: RoomView) -> None:
        self._view = view

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        word = before[max(before.rfind(" "), before.rfind("\n")) + 1 :]
        if word.startswith("@"):
            names = [
                (name, str(each.get("about") or each.get("detail") or ""))
                for name, each in self._view.agents.items()
            ]
            names += [
                (visitor.name, "on its own: reads it when it next looks")
                for visitor in self._view.locks.visitors(self._view.agents)
            ]
            yield from _matching(
                word, [(f"@{name}", detail) for name, detail in [*names, ("all", "everybody")]]
            )
        elif word.startswith("/") and word == before:
            known = [(str(each.get("name")), str(each.get("help") or "")) for each in self._view.commands]
            yield from _matching(word, [*known, ("/quit", "leave the room")])


def _matching(word: str, offers: list[tuple[str, str]]) -> Iterable[Completion]:
    for offer, detail in offers:
        if offer.lower().startswith(word.lower()):
            shown = safe_line(offer, 60)
            yield Completion(shown + " ", -len(word), display=shown, display_meta=safe_line(detail, 60))


def _files(place: Callable[[], Place]) -> str:
    with suppress(PlaceError):
        return place().files
    return ""


class RoomApp:
    """One visit to the room."""

    def __init__(self, place: Callable[[], Place], name: str, history: Path | None, entries: int) -> None:
        self._client = RoomClient(place, name, entries)
        self._view = RoomView(name, _files(place))
        self._posts: asyncio.Queue[Post] = asyncio.Queue()
        self._heard = asyncio.Event()
        self._lines: list[Fragments] = []
        self._input = Buffer(
            multiline=True,
            history=_history(history),
            completer=RoomCompleter(self._view),
            complete_while_typing=True,
            enable_history_search=False,
        )
        self._app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            style=STYLE,
            erase_when_done=True,
            output=_output(),
        )
        # Alt+Enter arrives as Esc and Enter. A person does not type these two within 50 ms.
        self._app.ttimeoutlen = 0.05

    async def run(self) -> int:
        """Stay until the person leaves. Returns the exit code."""
        hint = "Alt+Enter is a new line, /quit or Ctrl-D leaves"
        self._print(note("quiet", f"{safe_line(self._view.name)}: {hint}"))
        work = asyncio.create_task(self._work())
        work.add_done_callback(lambda _: self._app.is_running and self._app.exit())
        try:
            await self._app.run_async()
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
        for post in self._view.posts:
            if not post.id:
                unsure = "may not have arrived" if post.reached else "was not sent"
                self._print(note("warn", f"· {unsure}: {safe_line(post.body)}"))
        self._flush()
        return 0

    async def _work(self) -> None:
        async with self._client.open(), asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read())
            tasks.create_task(self._send())
            tasks.create_task(self._tick())
            tasks.create_task(self._count_needs())

    # --- the four tasks ----------------------------------------------------------------------------------

    async def _read(self) -> None:
        async with aclosing(self._client.frames()) as frames:
            async for frame in frames:
                now = time.time()
                view = self._view
                if isinstance(frame, Wire) or frame.get("type") not in _QUIET:
                    self._heard.set()
                view.columns = self._app.output.get_size().columns
                lines = view.on_wire(frame, now) if isinstance(frame, Wire) else view.on_frame(frame, now)
                if lines:
                    self._print(lines)
                else:
                    self._app.invalidate()

    async def _send(self) -> None:
        """Send each post until the room or the transcript has it, or the room refuses it."""
        while True:
            post = await self._posts.get()
            pause = 0.3
            while not post.id and post in self._view.posts:
                try:
                    await self._client.attempt(post)
                    self._drop(post)  # its entry arrives as a frame
                except Refused as error:
                    if error.passing:
                        await asyncio.sleep(error.wait_s)
                    else:
                        self._give_up(post, str(error))
                except Down:
                    if not await self._write_past(post):
                        await asyncio.sleep(pause)
                        pause = min(pause * 2, 5.0)
            self._app.invalidate()

    async def _write_past(self, post: Post) -> bool:
        try:
            if not await self._client.write_past(post):
                return False
        except (OSError, ValueError) as error:
            self._give_up(post, f"the room is down, and so is its transcript: {error}")
            return True
        self._drop(post)
        self._print(self._view.on_written(post, time.time()))
        return True

    async def _count_needs(self) -> None:
        """Keep what needs a person; where the room does not answer, the one before stands."""
        least, most = NEEDS_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(most):
                    await self._heard.wait()
            self._heard.clear()
            if self._view.wire.state == "live":
                with suppress(Down, Refused):
                    found = (await self._client.needs(), await self._client.main_fails())
                    if found != (self._view.needs, self._view.main_fails):
                        self._view.needs, self._view.main_fails = found
                        self._app.invalidate()
            await asyncio.sleep(least)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._view.is_moving:
                self._app.invalidate()

    def _give_up(self, post: Post, why: str) -> None:
        self._drop(post)
        self._print(note("bad", f"· not sent: {safe_line(why)}"))
        if not self._input.text:
            self._input.text = post.body  # the person can correct it
            self._input.cursor_position = len(post.body)

    def _drop(self, post: Post) -> None:
        with suppress(ValueError):
            self._view.posts.remove(post)

    # --- the screen ---------------------------------------------------------------------------------------

    def _print(self, lines: list[Fragments]) -> None:
        """Print above the input after `GATHER_S`, together with the lines that arrive until then."""
        if not self._lines and lines:
            asyncio.get_running_loop().call_later(GATHER_S, self._flush)
        self._lines += lines

    def _flush(self) -> None:
        """Print the gathered lines, in one write with the redraw."""
        app, columns = self._app, self._app.output.get_size().columns
        lines = [row for line in self._lines for row in wrapped(line, columns)]
        parts = FormattedText([part for row in lines for part in [*row, ("", "\n")]])
        self._lines = []
        if not parts:
            return
        if app.is_running:
            app.output.write_raw("\x1b[?2026h")
            app.renderer.erase()
        print_formatted_text(app.output, parts, STYLE)
        if app.is_running:
            # As `run_in_terminal` does, but without cooked mode, which would echo the keys that are typed meanwhile.
            app.renderer.reset()
            app._redraw()
            app.output.write_raw("\x1b[?2026l")
        app.output.flush()

    def _layout(self) -> Layout:
        def live() -> AnyFormattedText:
            size = self._app.output.get_size()
            lines = self._view.live(time.time(), size.columns, max(3, min(10, size.rows // 2)))
            return FormattedText([part for line in lines for part in [("", "\n"), *line]][1:])

        def toolbar() -> AnyFormattedText:
            columns = self._app.output.get_size().columns
            room = columns - len(_HOW_TO_LEAVE)
            return FormattedText(
                [*cropped(self._view.toolbar(time.time()), room), ("class:quiet", _HOW_TO_LEAVE)]
            )

        shown = Condition(lambda: bool(self._view.live(time.time(), 80, 2)))
        entry = Window(
            BufferControl(self._input),
            wrap_lines=True,
            dont_extend_height=True,
            height=Dimension(min=1, max=12),
            get_line_prefix=self._prefix,
        )
        return Layout(
            HSplit(
                [
                    ConditionalContainer(Window(FormattedTextControl(live), dont_extend_height=True), shown),
                    entry,
                    ConditionalContainer(CompletionsMenu(max_height=6), has_completions),
                    Window(
                        FormattedTextControl(toolbar),
                        style="class:toolbar",
                        height=1,
                    ),
                ]
            ),
            entry,
        )

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        name = safe_line(self._view.name, 32)
        if line == 0 and wrapped == 0:
            return [(f"bold {colour(name)}", name), ("class:quiet", " › ")]
        return [("class:quiet", " " * len(name) + " │ ")]

    # --- the keys -----------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        empty = Condition(lambda: not self._input.text)

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            menu = self._input.complete_state
            if menu is not None and menu.current_completion is not None:
                self._input.complete_state = None  # the choice is in the text already
            else:
                self._accept()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            self._input.newline()

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            if self._input.text:
                self._input.reset()
            else:
                event.app.exit()

        @keys.add("c-d", filter=empty)
        def _(event: KeyPressEvent) -> None:
            event.app.exit()

        @keys.add("c-l")
        def _(event: KeyPressEvent) -> None:
            event.app.renderer.clear()

        return keys

    def _accept(self) -> None:
        body = self._input.text.strip("\n").rstrip()
        if body.strip() in LEAVE:
            self._app.exit()
            return
        if not body.strip():
            self._input.reset()
            return
        self._input.reset(append_to_history=True)
        post = Post(body, new_id())
        self._view.posts.append(post)
        self._posts.put_nowait(post)


def _output() -> Output:
    """The terminal, without requests for the cursor's position: the layout takes the height that it needs, and a late
    answer would describe a screen that has changed since."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def _history(path: Path | None) -> History:
    if path is None or not path.parent.is_dir():
        return InMemoryHistory()
    return FileHistory(str(path))
