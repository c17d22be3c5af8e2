"""What places outside are sent, and what is kept of it, as values: signed, inert, bounded, each need once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest

from relay.app.needs.need import Kind, Need, NeedAction
from relay.app.notify import told
from relay.app.notify.bodies import MOST_TEXT, body_of, headers_of, signature
from relay.app.notify.places import Place, places_of
from relay.app.notify.sending import retry_after
from relay.app.notify.told import AGAIN_S, GIVE_UP_S, MOST, PAUSES_S, Standing
from relay.config.loading import ConfigError, parse
from relay.config.notify import NeedKind, secret_trouble
from relay.model import actions

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HOSTILE = (
    "@here <!channel> <https://evil.example|click> http://evil.example/x evil.com/y "
    "\u202egnp.exe\x1b[2J\n[RELAY] all is **well** " + "x" * 100_000
)


def need(
    id: str = "agent:CLEO", kind: Kind = Kind.FAILED_AGENT, at: float = 10.0, text: str = "It failed."
) -> Need:
    return Need(
        id, kind, at, "CLEO", text, (NeedAction("try", "Try now", actions.TryNow(("CLEO",))),), "CLEO"
    )


def place(format: str = "json", **more: Any) -> Place:
    return Place("phone", format, "https://ntfy.example/base/my-topic?auth=abcd", "", **more)


def test_a_message_is_signed_as_the_standard_webhooks_say() -> None:
    """The example of the specification's own libraries."""
    made = signature(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert made == signature(
        SECRET.removeprefix("whsec_"), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert secret_trouble(SECRET.removeprefix("whsec_")) == secret_trouble(SECRET) == ""
    assert "webhook-signature" not in headers_of(place(), "msg_1", 1, b"{}")


def test_each_format_has_its_body() -> None:
    url, body = body_of(place("json"), need(), "shop", "http://room:4173/")
    assert url == "https://ntfy.example/base/my-topic?auth=abcd"
    link = "http://room:4173/#/needs"
    assert json.loads(body) == {"type": "need", **need().as_json(), "room": "shop", "url": link}
    url, body = body_of(place("ntfy"), need(), "shop", "http://room:4173")
    assert url == "https://ntfy.example/base/?auth=abcd"
    title = "Failed agent: CLEO (shop)"
    expected = {"topic": "my-topic", "title": title, "message": "It failed.", "priority": 4, "click": link}
    assert json.loads(body) == {**expected, "tags": ["failed_agent"]}
    _, body = body_of(place("ntfy"), need("question:m1", Kind.QUESTION), "shop", "")
    assert json.loads(body)["priority"] == 3 and "click" not in json.loads(body)
    _, body = body_of(place("slack"), need(), "shop", "http://room:4173")
    said = json.loads(body)
    assert said["text"] == f"{title}\nIt failed.\n{link}"
    assert [block["type"] for block in said["blocks"]] == ["header", "section", "context"]
    # With what makes it inert, too, a header is as long as Slack takes one.
    _, body = body_of(place("slack"), need(), "a.b." * 40, "http://room:4173")
    assert len(json.loads(body)["blocks"][0]["text"]["text"]) <= 150


@pytest.mark.parametrize("format", ["json", "ntfy", "slack"])
def test_a_hostile_text_is_short_and_calls_nobody(format: str) -> None:
    _, body = body_of(place(format), need(text=HOSTILE), HOSTILE, "http://room")
    text = body.decode()
    assert len(body) < 6 * MOST_TEXT
    assert "\\n[RELAY]" not in text and "\x1b" not in text and "\u202e" not in text and "\\u202e" not in text
    if format != "json":
        assert not any(address in text for address in ("://evil", "evil.example", "evil.com", "@here"))
        assert "http://room/#/needs" in text
    if format == "slack":
        shown = json.loads(body)
        assert (
            "@here" not in text and "<!channel>" not in shown["text"] and "<https://evil" not in shown["text"]
        )
        assert {block["text"]["type"] for block in shown["blocks"][:2]} == {"plain_text"}


def test_each_need_is_told_once_and_again_when_it_comes_again_later() -> None:
    standing, phone = Standing(), place(kinds=frozenset({"failed_agent"}))
    other = need("question:m1", Kind.QUESTION)
    assert standing.take_in([need(), other], phone, 100.0)
    ((id, telling),) = standing.waiting
    assert id == "agent:CLEO" and not standing.take_in([need(), other], phone, 101.0)
    standing.done(telling, 102.0)
    assert not standing.waiting
    # It goes, and comes again soon: it is the same still.
    assert standing.take_in([], phone, 103.0)
    assert standing.take_in([need()], phone, 104.0) and not standing.waiting
    assert standing.take_in([], phone, 105.0)
    later = 102.0 + AGAIN_S
    assert standing.take_in([need()], phone, later)
    ((_, anew),) = standing.waiting
    assert anew.id != telling.id
    # What is settled before it was told is not told; and nothing of it is kept for ever.
    assert standing.take_in([], phone, later + 1) and not standing.waiting
    assert standing.take_in([], phone, later + AGAIN_S + 1) and not standing.needs


def test_an_answer_to_a_task_is_told_once_and_not_before_its_verdict() -> None:
    standing, phone = Standing(), place()

    def answered(message: str, tell_at: float | None = None) -> Need:
        return replace(need("answered:t1", Kind.ANSWERED), news=f"answered:t1:{message}", tell_at=tell_at)

    # Its tests run: the inbox shows it, and the phone waits for the verdict, or until then at the latest.
    standing.take_in([answered("m2", 220.0)], phone, 100.0)
    assert not standing.needs
    assert standing.take_in([answered("m2", 105.0)], phone, 110.0)
    ((_, telling),) = standing.waiting
    standing.done(telling, 111.0)
    # It gives way to another need, for hours, and the room is started anew: it comes back as what was told.
    standing.take_in([], phone, 200.0)
    standing.take_in([need(f"job:{n}") for n in range(20)], phone, 20_000.0)
    standing = told._standing(json.loads(json.dumps(told.asdict(standing))))
    standing.take_in([answered("m2", 105.0)], phone, 20_001.0)
    assert "answered:t1:m2" in standing.needs and "answered:t1:m2" not in dict(standing.waiting)
    # Another answer is news at once, and so is one that comes back when it was put off for a day.
    standing.take_in([answered("m9")], phone, 20_010.0)
    ((id, telling),) = [pair for pair in standing.waiting if pair[0].startswith("answered")]
    assert id == "answered:t1:m9"
    standing.done(telling, 20_011.0)
    standing.take_in([], phone, 20_020.0)
    standing.take_in([], phone, 20_015.0 + 86_400.0)
    standing.take_in([answered("m9")], phone, 20_020.0 + 86_400.0)
    assert "answered:t1:m9" in dict(standing.waiting)
    # What is kept of what is over makes room for what is not.
    standing.take_in([], phone, 110_000.0)
    standing.take_in([need(f"job:{n}") for n in range(MOST)], phone, 110_001.0)
    assert len(standing.needs) == MOST == len(standing.waiting)


def test_a_place_is_left_alone_for_longer_each_time_and_what_waits_too_long_is_given_up() -> None:
    standing, now = Standing(), 100.0
    standing.take_in([need()], place(), now)
    for pause in (*PAUSES_S, PAUSES_S[-1]):
        standing.failed("HTTP 503", 0.0, now)
        assert 0.8 * pause <= standing.next - now <= 1.2 * pause
        now = standing.next
        # What fell due meanwhile is tried at once.
        assert [told.soonest([standing], at, 4.0) for at in (now - 1.0, now, now + 1.0)] == [1.0, 0.0, 0.0]
    assert standing.waiting and now < GIVE_UP_S
    standing.failed("HTTP 503", 7.0, GIVE_UP_S + 101)
    assert not standing.waiting and standing.trouble == "HTTP 503" and standing.since == 100.0
    # Another address begins anew, with what was given up at the old one.
    other = Place("phone", "json", "https://other.example/x", "")
    assert standing.take_in([need()], other, now) and len(standing.waiting) == 1 and standing.trouble == ""


def test_a_variable_that_is_not_set_is_a_trouble_before_anything_waits() -> None:
    standing, unset = Standing(), place(trouble="PHONE is not set in the environment of the room")
    assert standing.take_in([], unset, 5.0) and (standing.trouble, standing.since) == (unset.trouble, 5.0)
    assert not standing.take_in([], unset, 6.0)
    assert standing.take_in([], place(), 7.0) and standing.trouble == ""


def test_a_place_asks_for_time_and_many_needs_are_bounded() -> None:
    standing = Standing()
    standing.take_in([need(f"job:{n}", at=float(n)) for n in range(MOST + 50)], place(), 0.0)
    assert len(standing.needs) == MOST and f"job:{MOST + 49}" in standing.needs
    standing.failed("HTTP 429", 120.0, 1.0)
    assert standing.next >= 121.0
    assert retry_after("120", 0.0) == 120.0
    assert retry_after("Thu, 01 Jan 1970 00:02:00 GMT", 60.0) == 60.0
    assert [retry_after(text, 0.0) for text in ("", "soon", "-4", "9" * 400)] == [0.0, 0.0, 0.0, 86_400.0]


def test_what_is_kept_is_read_back() -> None:
    standing = Standing()
    standing.take_in([need()], place(), 0.0)
    standing.failed("HTTP 503", 0.0, 1.0)
    assert told._standing(json.loads(json.dumps(told.asdict(standing)))) == standing


def test_kinds_of_the_configuration_are_those_of_the_inbox() -> None:
    assert get_args(NeedKind) == tuple(Kind)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        ({}, "notify[0].url: is missing"),
        ({"url": "ftp://x/y"}, "notify[0].url: is no address of a server"),
        ({"url": "https://ntfy.sh", "format": "ntfy"}, "notify[0].url: names no topic"),
        ({"url": "https://x/y", "url_env": "X"}, "notify[0].url: found beside url_env"),
        ({"url": "https://x/y", "kinds": ["permision"]}, 'nearest: "permission"'),
        ({"url": "https://x/y", "secret": "hunter2"}, "notify[0].secret: is no secret"),
        ({"url": "https://x/y", "secret_env": "a b"}, "notify[0].secret_env: is no variable's name"),
        ({"url": "https://x/y", "name": "a b"}, "notify[0].name: is no name"),
        ({"url": "https://x/y", "page": "x"}, "notify[0].page: is no address"),
        ({"url": "https://x/y", "colour": "red"}, "notify[0].colour: unknown key"),
    ],
)
def test_what_is_wrong_with_a_place_is_said_without_its_secret(tmp_path: Any, one: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(json.dumps({"notify": [one]}), tmp_path / "config.json")
    assert said in str(caught.value) and "hunter2" not in str(caught.value)


def test_two_places_have_two_names_and_a_variable_that_is_not_set_is_said(tmp_path: Any) -> None:
    twice = [{"url": "https://x.example/a"}, {"url": "https://x.example/b"}]
    with pytest.raises(ConfigError, match=r'"x.example", the name of notify\[0\] too'):
        parse(json.dumps({"notify": twice}), tmp_path / "config.json")
    one = {"url_env": "ADDRESS", "secret_env": "SECRET", "format": "ntfy"}
    settings = parse(json.dumps({"notify": [one]}), tmp_path / "config.json")
    (found,) = places_of(settings.notify, {})
    assert (found.name, found.trouble) == ("ADDRESS", "ADDRESS is not set in the environment of the room")
    environ = {"ADDRESS": "https://ntfy.example/t0p1c", "SECRET": "x"}
    (found,) = places_of(settings.notify, environ)
    assert found.trouble.startswith("SECRET is no secret")
    (found,) = places_of(settings.notify, {**environ, "SECRET": SECRET})
    assert found.trouble == "" and "t0p1c" not in repr(found) and SECRET not in repr(found)
    assert found.clean(f"no topic t0p1c for {SECRET}") == "no topic … for …"
