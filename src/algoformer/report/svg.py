"""SVG that may stand inside a page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_SHAPES = ("path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan", "use")
_ROUND_THEM = ("svg", "g", "defs", "clipPath", "marker", "symbol", "style", "title", "desc")
_DRAWN = frozenset((*_SHAPES, *_ROUND_THEM, "linearGradient", "stop"))
_EVERYWHERE = re.compile(r"\s*\*\s*\{([^{}]*)\}\s*")
_REFERENCE = re.compile(r"#([A-Za-z][\w.:-]*)")


def embedded(svg: str, *, alt: str = "", prefix: str = "") -> str:
    """A drawing as markup for the inside of an HTML page.

    What only a file of its own needs is taken away (declaration, document type, metadata, namespaces); a
    text for those who do not see it is put in, and `prefix` goes before its identifiers, so that two
    drawings on one page do not share any.

    Raises:
        ValueError: it is not well-formed SVG, or holds anything that is not a drawing: a script, an event
            handler, an address outside the page.
    """
    if "<!ENTITY" in svg:
        raise ValueError("a drawing must not define entities")
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(f"this drawing is not well-formed SVG: {error}") from None
    if root.tag not in (f"{{{_SVG}}}svg", "svg"):
        raise ValueError(f"a drawing is an <svg> element, got <{_plain(root.tag)}>")
    _clean(root)
    _take_in_style(root)
    _rename(root, prefix)
    root.set("role", "img")
    if alt:
        root.set("aria-label", alt)
    return ElementTree.tostring(root, encoding="unicode")


def _clean(element: ElementTree.Element) -> None:
    for child in list(element):
        if _plain(child.tag) == "metadata":
            element.remove(child)
        else:
            _clean(child)
    name = _plain(element.tag)
    if name not in _DRAWN:
        raise ValueError(f"a drawing must not hold <{name}>")
    element.tag = name
    for key, value in list(element.attrib.items()):
        if _plain(key).lower().startswith("on") or _leaves(key, value):
            raise ValueError(f"a drawing must not hold {_plain(key)}={value!r}")
        if key.startswith("{"):
            del element.attrib[key]
        if key == _LINK:
            # HTML knows the plain name; the old one would need a namespace
            element.set("href", value)
    if name == "style" and _reaches_out(element.text or ""):
        raise ValueError("a drawing's style must not load anything")


def _take_in_style(root: ElementTree.Element) -> None:
    # matplotlib styles "*", which on a page is everything; from the root only the drawing inherits it
    for parent in root.iter():
        for child in list(parent):
            rule = _EVERYWHERE.fullmatch(child.text or "") if child.tag == "style" else None
            if rule is not None:
                parent.remove(child)
                root.set("style", f"{root.get('style', '')};{rule[1]}".strip(";"))


def _rename(root: ElementTree.Element, prefix: str) -> None:
    names = {element.attrib["id"] for element in root.iter() if "id" in element.attrib}

    def renamed(match: re.Match[str]) -> str:
        return f"#{prefix}{match[1]}" if match[1] in names else match[0]

    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "id":
                element.set(key, prefix + value)
            elif key.startswith("aria-"):
                element.set(
                    key, " ".join(prefix + word if word in names else word for word in value.split(" "))
                )
            else:
                element.set(key, _REFERENCE.sub(renamed, value))
        if element.tag == "style":
            element.text = _REFERENCE.sub(renamed, element.text or "")


def _leaves(key: str, value: str) -> bool:
    if _plain(key) == "href":
        return not value.startswith("#")
    return _reaches_out(value)


def _reaches_out(text: str) -> bool:
    words = text.lower()
    return (
        "@import" in words or "javascript:" in words or bool(re.search(r"url\(\s*['\"]?\s*[^#'\"\s]", words))
    )


def _plain(name: object) -> str:
    return str(name).rpartition("}")[2]
