"""What a reader does with a page and sees on it."""

import json

from scripts.browser import Page


def settled(page: Page) -> None:
    """Wait until the page has run the prompt and has the attention maps of that run."""
    unfinished = ("running", "busy", "pending", "looking")
    page.wait(" && ".join(f"!explorer.{name}" for name in unfinished) + " && explorer.inside.message")


def shown(page: Page) -> list[float]:
    """The model's answers to the question, one for each iteration, as the page has them."""
    return page.run("explorer.answers.map((numbers) => numbers[0])")


def rows_of(page: Page) -> list[list[float]]:
    return page.run("(explorer.prompt ?? explorer).rows()")


def set_value(page: Page, name: str, value: float | str, event: str = "input") -> None:
    field = f"document.getElementById({json.dumps(name)})"
    page.run(
        f"(() => {{ const element = {field}; element.value = {json.dumps(value)}; "
        f"element.dispatchEvent(new Event({json.dumps(event)}, {{bubbles: true}})); }})()"
    )
