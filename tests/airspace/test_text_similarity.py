"""What the current work of two agents is about, and how alike it is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.airspace.pair_facts import PairFacts
from relay.airspace.profiles import reasons
from relay.airspace.profiles.calibrated import PROFILES, calibrated
from relay.airspace.scan.scan import PairScan
from relay.airspace.text_similarity import Likenesses, Vocabulary, likeness, terms, text_of
from relay.model.working_set import FileTouch, WorkingSet

MAIN = Vocabulary.of(
    ["Fix the build", "Update the docs of the build", "Add a parser", "Test the build", "Release"]
)


def test_the_text_is_what_was_asked_and_what_the_commits_and_the_branch_say() -> None:
    text = text_of(
        asked=["Fix the cart"], intent=["src/cart.py"], branch="feat/cart-total", commits=["Round up"]
    )
    assert text.split("\n") == ["Fix the cart", "feat/cart-total", "Round up", "src/cart.py"]


@pytest.mark.parametrize("branch", ["tw/ann/ava", "relay/ava", "main", "master"])
def test_a_branch_that_is_named_for_no_work_says_nothing(branch: str) -> None:
    assert text_of(branch=branch) == ""


def test_names_are_taken_apart_and_trailers_links_and_addresses_are_left_out() -> None:
    text = "cartTotal in HTTPServer, cart_total https://example.org/cart a@b.example"
    text += "\nSigned-off-by: Cart <c@d.example>"
    assert terms(text) == {"cart": 2, "total": 2, "http": 1, "server": 1}


def test_what_is_common_on_the_main_branch_weighs_less() -> None:
    rare = likeness(MAIN.weigh("cart total"), MAIN.weigh("cart page"))
    common = likeness(MAIN.weigh("build total"), MAIN.weigh("build page"))
    assert rare.cosine > common.cosine > 0
    assert rare.terms == ("cart",)


def test_an_agents_name_makes_nobody_alike() -> None:
    texts = {"AVA": "@AVA @BEN fix the parser", "BEN": "@AVA @BEN write the docs"}
    found = Likenesses().between(texts, MAIN)[("AVA", "BEN")]
    assert found.cosine == 0 and found.terms == ()


def test_the_evidence_names_only_what_was_asked_or_declared_and_says_which() -> None:
    """The commits speak of the shop as well, the one was only declared to change a file, and fillers name nothing."""
    asked = {"AVA": "put a line about the voucher into the shop", "BEN": "the voucher, put it in line"}
    texts = {name: f"{text}\nthe ledger rounds" for name, text in asked.items()}
    declared = {"CYD": "src/voucher.py"}
    found = Likenesses().between({**texts, **declared}, MAIN, asked, declared)
    said = {pair: reasons.words(one)[0].text for pair, one in found.items()}
    assert said == {
        ("AVA", "BEN"): "both were asked about voucher",
        ("AVA", "CYD"): "both were asked about or declared voucher",
        ("BEN", "CYD"): "both were asked about or declared voucher",
    }
    same = Likenesses().between(texts, MAIN)[("AVA", "BEN")]
    assert found[("AVA", "BEN")].cosine == same.cosine
    (one,) = reasons.words(Likenesses().between(texts, MAIN, {}, {})[("AVA", "BEN")])
    assert one.text == "what both work on is told in much the same words"


def test_who_has_said_nothing_is_in_no_pair() -> None:
    assert Likenesses().between({"AVA": "cart", "BEN": ""}, MAIN) == {}


def test_a_pair_follows_its_texts() -> None:
    kept = Likenesses()
    assert kept.between({"AVA": "the cart", "BEN": "the parser"}, MAIN)[("AVA", "BEN")].cosine == 0
    assert kept.between({"AVA": "the cart", "BEN": "the cart"}, MAIN)[("AVA", "BEN")].cosine == pytest.approx(
        1
    )
    assert kept.between({"AVA": "the cart", "BEN": ""}, MAIN) == {}
    assert kept.between({"AVA": "the cart", "CYD": "cart"}, MAIN).keys() == {("AVA", "CYD")}


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_likeness_is_symmetric_and_from_0_to_1(one: str, other: str) -> None:
    a, b = MAIN.weigh(one), MAIN.weigh(other)
    assert likeness(a, b) == likeness(b, a)
    assert 0 <= likeness(a, b).cosine <= 1
    assert not a or math.isclose(likeness(a, a).cosine, 1)


def test_two_that_were_asked_about_one_thing_lie_ahead_of_each_other_wherever_they_work() -> None:
    space = PairScan(floor=0.05)
    for agent, path in (("AVA", "src/cart.py"), ("BEN", "web/page.ts")):
        space.update(WorkingSet(agent, (FileTouch(path),)))
    profile = PROFILES["calibrated"]
    assert space.scan(profile).links == ()
    told = {"AVA": "the total of the cart is wrong", "BEN": "round the total of the cart"}
    words = Likenesses().between(told, MAIN)
    (link,) = space.scan(profile, words=words).links
    assert link.assessment.ahead
    assert [one.text for one in link.assessment.channels["words"].evidence] == [
        "both were asked about cart and total"
    ]
    near = PairFacts(words=words[("AVA", "BEN")])
    assert link.risk >= calibrated(*space.working_sets(), near).risk > 0.1
    assert space.scan(profile).links == ()
