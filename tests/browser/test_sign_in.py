"""Coming in, and going out."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.browser.person import Person
from tests.outside import Outside

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_link_signs_in_once_and_leaves_the_address_bar(chromium: Browser, house: Outside) -> None:
    ann = await Person.signed_out(chromium, house, "ann")
    url = await ann.sign_in()
    secret = url.split("#link=")[1]
    assert secret not in ann.page.url and "#" not in ann.page.url
    assert secret not in await ann.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    (cookie,) = await ann.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    await ann.reload()
    await ann.leave()

    late = await Person.signed_out(chromium, house, "late")
    await late.page.goto(url)
    await expect(late.page.get_by_role("alert")).to_contain_text("has expired")
    # One command, which names this room's configuration.
    await expect(late.page.get_by_role("alert")).not_to_contain_text("relay link")
    await expect(late.page.get_by_test_id("link-command")).to_contain_text(f"link --config {house.path}")
    await expect(late.page.get_by_test_id("link-where")).to_have_count(0)
    assert secret not in late.page.url
    await late.leave()


async def test_the_token_signs_in_and_a_wrong_one_says_where_it_is(chromium: Browser, house: Outside) -> None:
    ann = await Person.signed_out(chromium, house, "")
    await ann.page.goto(house.url)
    # Who has no key is told no place of this machine.
    await expect(ann.page.get_by_test_id("link-command")).to_have_text("relay link")
    await expect(ann.page.get_by_test_id("link-where")).to_contain_text("--config")
    token = ann.page.get_by_label("Room token")
    await token.fill("not the token")
    await ann.page.get_by_role("button", name="Sign in").click()
    await expect(ann.page.get_by_role("alert")).to_contain_text(".relay/token")
    await token.fill(house.token)
    await ann.page.get_by_role("button", name="Sign in").click()

    dialog = ann.page.get_by_test_id("name-dialog")
    await dialog.get_by_label("Your name").fill("two words")
    await expect(dialog.get_by_text("no spaces")).to_be_visible()
    await dialog.get_by_label("Your name").fill("zoe")
    await dialog.get_by_role("button", name="Come in").click()
    await ann.is_live()
    await expect(ann.page.locator(".people")).to_contain_text("zoeyou")
    await ann.leave()


async def test_who_is_here_follows_the_name(chromium: Browser, house: Outside) -> None:
    one = await Person.arrive(chromium, house, "ida")
    other = await Person.arrive(chromium, house, "otto")
    people = other.page.locator(".people")
    await expect(people).to_contain_text("ida")
    await one.page.get_by_role("button", name="ida", exact=True).first.click()
    await one.page.get_by_test_id("name").fill("ilse")
    await one.page.get_by_role("button", name="Save").click()
    await expect(people).to_contain_text("ilse")
    await expect(people).not_to_contain_text("ida")
    # An agent's name is nobody's. Of a waiting message nothing is said where there is none.
    await one.page.get_by_role("button", name="ilse", exact=True).first.click()
    await one.page.get_by_test_id("name").fill("claude")
    await one.page.get_by_role("button", name="Save").click()
    await expect(one.page.get_by_test_id("name-dialog")).to_contain_text("That name is taken")
    await expect(one.page.get_by_test_id("name-dialog")).to_contain_text("Take another one.")
    await expect(one.page.get_by_test_id("name-dialog")).not_to_contain_text("your message")
    # And the page goes by the name before.
    await expect(one.page.locator(".me")).to_have_text("ilse")
    await expect(one.page.get_by_text("as ilse")).to_be_visible()
    await one.page.get_by_test_id("name").fill("ilse")
    await one.page.get_by_role("button", name="Save").click()
    await one.is_live()
    await one.leave()
    await expect(people).not_to_contain_text("ilse")
    await other.leave()


async def test_signing_out_ends_the_session(chromium: Browser, house: Outside) -> None:
    ann = await Person.arrive(chromium, house, "ann")
    await ann.page.get_by_role("button", name="ann", exact=True).first.click()
    await ann.page.get_by_role("button", name="Sign out").click()
    await expect(ann.page.get_by_test_id("sign-in")).to_be_visible()
    assert await ann.page.evaluate("fetch('/api/state').then((answer) => answer.status)") == 401
    await ann.leave()
