"""Short texts on four topics. What is done and what is not use the same words: only their order tells."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.small_corpora.dice import Dice

TOPICS: dict[str, tuple[str, ...]] = {
    "cooking": (
        *("stirring the soup", "beating the eggs", "rolling out the dough", "seasoning the fish"),
        *("baking a round cake", "cutting the lemons", "setting the table", "frying the last eggs"),
        *("serving the first course", "peeling the apples", "catching the right moment for the roast"),
        *("tasting the cold sauce", "filling the big bowl", "cleaning the pan", "picking fresh herbs"),
    ),
    "sport": (
        *(
            "beating the visitors",
            "scoring the last goal",
            "serving at match point",
            "training for the match",
        ),
        *(
            "running the first round",
            "catching the ball",
            "keeping the score",
            "cutting a corner of the track",
        ),
        *(
            "setting a record",
            "crossing the finishing line",
            "rolling the ball",
            "playing at the big stadium",
        ),
        *("jumping over the bar", "watching the season end", "picking the team"),
    ),
    "music": (
        *("playing the last note", "keeping the beat", "setting a poem to music", "playing an old record"),
        *("singing at the big concert", "catching the right key", "cutting the second verse"),
        *("tuning the cold strings", "picking the guitar", "writing the score", "filling the hall with song"),
        *("crossing the stage", "beating the drum", "writing the first line of a tune", "singing a round"),
    ),
    "travel": (
        *(
            "catching the last train",
            "booking a table by the sea",
            "setting off at dawn",
            "crossing the border",
        ),
        *(
            "missing the first train",
            "picking a cheap hotel",
            "filling the big suitcase",
            "keeping the ticket",
        ),
        *("running for the bus", "watching the cold sea", "changing at the next station"),
        *(
            "taking the round trip",
            "writing a line home",
            "playing cards on the ferry",
            "cutting the trip short",
        ),
    ),
}
"""Each topic with what people do there; most words belong to more than one."""

_PEOPLE = (
    *("Anna", "Ben", "Clara", "my brother", "our neighbour", "the teacher", "her aunt", "the old man"),
    *("a friend of mine", "the twins' father", "the doctor", "their cousin"),
)
_WHEN = (
    *("yesterday", "last summer", "on Sunday", "before breakfast", "in the evening", "as a child"),
    *("for the first time", "in spite of the rain", "at last", "without a word"),
)
_ENDINGS = (
    "",
    " It took hours.",
    " Nobody complained.",
    " The others agreed.",
    " What a day!",
    " It went well.",
)
_ALONE = (
    "{who} enjoyed {done} {when}.",
    "{when}, {who} was busy {done}.",
    "{done} was what {who} did {when}.",
    "{who} talked about {done} and about {also} {when}.",
)
_INSTEAD = (
    "instead of {other}, {who} spent the time {done} {when}.",
    "{who} was {done} {when} instead of {other}.",
    "{who} gave up {other} and began {done} {when}.",
    "{who} began {done} {when} and gave up {other}.",
    "{who} prefers {done} to {other}.",
    "rather than {other}, {who} chose {done} {when}.",
    "{who} was not {other} {when} but {done}.",
    "{who} was {done} {when}, not {other}.",
)


@dataclass(frozen=True)
class Topical:
    """A text and the number of its topic."""

    text: str
    topic: int


def draw_text(dice: Dice, *, instead: float = 0.4) -> Topical:
    """One text; a share of them also names something from another topic that was not done.

    >>> draw_text(Dice(0)).topic in range(len(TOPICS))
    True
    """
    names = list(TOPICS)
    topic = dice.choose(names)
    other = dice.choose([name for name in names if name != topic])
    template = dice.choose(_INSTEAD if dice.chance(instead) else _ALONE)
    done = dice.choose(TOPICS[topic])
    text = template.format(
        who=dice.choose(_PEOPLE),
        when=dice.choose(_WHEN),
        done=done,
        also=dice.choose([doing for doing in TOPICS[topic] if doing != done]),
        other=dice.choose(TOPICS[other]),
    )
    return Topical(text[0].upper() + text[1:] + dice.choose(_ENDINGS), names.index(topic))
