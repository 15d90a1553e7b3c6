"""The result of `algoformer identify` in the form that the explorer page shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from algoformer.evaluation.tables import show

REMEDY = "write the file with algoformer identify MODEL --out FOLDER"


def verdict_of(found: object) -> dict[str, Any]:
    """Return the verdict in words and the spectral filters of an identification, given as JSON data.

    >>> found = {"status": "resembles", "families": [{"name": "Newton from αI", "share": 0.62}]}
    >>> verdict_of(found)["verdict"]
    'Resembles Newton from αI, which explains 0.620 of what is left.'

    Raises:
        ValueError: the data is not an identification, or its filters do not fit together.
    """
    if not isinstance(found, Mapping):
        raise ValueError(f"an identification is an object, got {type(found).__name__}; {REMEDY}")
    return {"verdict": _sentence(found), "filters": _filters(found.get("curves") or {})}


def _sentence(found: Mapping[str, Any]) -> str:
    if isinstance(found.get("sentence"), str):
        return str(found["sentence"])
    families = found.get("families")
    nearest = families[0] if isinstance(families, list) and families else None
    status = found.get("status")
    if not isinstance(status, str) or not isinstance(nearest, Mapping):
        raise ValueError(f"an identification needs a sentence, or a status and families; {REMEDY}")
    name, share = str(nearest.get("name")), nearest.get("share")
    if not isinstance(share, int | float):
        raise ValueError(f"share of the nearest family must be a number, got {share!r}; {REMEDY}")
    explained = f"{name}, which explains {show(float(share))} of what is left."
    if status in ("runs", "resembles"):
        return f"{status.capitalize()} {explained}"
    return f"{status.capitalize()}; nearest is {explained}"


def _filters(curves: object) -> dict[str, Any] | None:
    """Return the filters r_t(λ) of the model and of candidates, one curve for each pass."""
    if not curves:
        return None
    if not isinstance(curves, Mapping):
        raise ValueError(
            f"curves of an identification must be an object, got {type(curves).__name__}; {REMEDY}"
        )
    places, candidates = curves.get("eigenvalues"), curves.get("candidates", {})
    series = {"the model": curves.get("measured"), **(candidates if isinstance(candidates, Mapping) else {})}
    if not isinstance(places, list) or len(places) < 2 or not all(map(_is_number, places)):
        raise ValueError(f"eigenvalues of an identification must be a list of numbers; {REMEDY}")
    for name, passes in series.items():
        fits = isinstance(passes, list) and all(
            isinstance(curve, list) and len(curve) == len(places) and all(map(_is_number, curve))
            for curve in passes
        )
        if not fits or not passes:
            raise ValueError(f"the filter of {name!r} needs {len(places)} numbers for each pass; {REMEDY}")
    return {"eigenvalues": places, "series": series}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
