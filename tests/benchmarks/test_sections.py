"""What the sections say about each other, at tiny sizes; no clock is trusted here."""

from dataclasses import replace

import pytest
import torch

from algoformer.cli.demo_runs import MODELS
from algoformer.language import cache_bytes
from algoformer.model.presets import algoformer
from benchmarks import QUICK, Setting
from benchmarks.cpu import cpu_rows
from benchmarks.decoding import decoding_rows
from benchmarks.evaluation import evaluation_rows
from benchmarks.lines import HERE, line_rows
from benchmarks.memory import memory_rows
from benchmarks.page import page_rows
from benchmarks.steps import step_rows
from scripts.browser import find_browser

CPU = Setting(device=torch.device("cpu"), size=QUICK, engines=("eager",), precisions=("fp32",))


def test_every_solver_measures_the_same_errors() -> None:
    rows = list(evaluation_rows(CPU))
    assert [row["solver"] for row in rows] == ["plain", "model", "open_solver, eager"]
    assert all(row["errors_differ_by"] < 1e-5 for row in rows[1:])
    assert all(row["prompts"] == QUICK.evaluated_prompts and row["T"] == 6 for row in rows)


def test_memory_grows_with_a_full_gradient_hardly_when_recomputed_and_not_through_a_window() -> None:
    kept = {(row["T"], row["gradient"]): row["formula_mebibytes"] for row in memory_rows(CPU)}
    few, many = QUICK.depths
    assert kept[few, "window"] == kept[many, "window"]
    state = QUICK.batch * 2 * QUICK.points * QUICK.width * 4 / 2**20
    grown = kept[many, "full, recompute"] - kept[few, "full, recompute"]
    assert grown == pytest.approx((many - few) * state)
    assert kept[many, "full"] - kept[few, "full"] > 16 * grown


def test_the_demos_models_are_timed_in_turns_and_threads_are_put_back() -> None:
    threads = torch.get_num_threads()
    rows = list(cpu_rows(CPU))
    assert [(row["model"], row["step"]) for row in rows] == [
        (model, step) for model in MODELS for step in ("plain", "ours")
    ]
    assert torch.get_num_threads() == threads


def test_a_case_and_an_engine_make_a_row_each() -> None:
    setting = replace(CPU, cases=("chain",), precisions=("fp32", "tf32"))
    rows = list(step_rows(setting))
    assert [(row["step"], row["precision"]) for row in rows] == [
        ("plain", "fp32"),
        ("eager", "fp32"),
        ("eager", "tf32"),
    ]
    plain = rows[0]
    for row in rows:
        assert row["times_plain"] == pytest.approx(plain["ms"] / row["ms"])
        assert row["teraflops"] * row["ms"] == pytest.approx(plain["teraflops"] * plain["ms"])


def test_a_cache_decodes_the_same_tokens_and_takes_the_memory_of_its_formula() -> None:
    setting = replace(CPU, cases=("algoformer_full", "algoformer_window", "chain"))
    rows = {row["decoder"]: row for row in decoding_rows(setting)}
    assert list(rows) == ["uncached", "cached, last", "cached, full"]
    assert rows["cached, full"]["same_tokens"] == 1
    program = algoformer(heads=QUICK.heads, steps=QUICK.decoded_steps)
    length = QUICK.prefix + QUICK.generated - 1
    for policy in ("last", "full"):
        row = rows[f"cached, {policy}"]
        sizes = {"width": QUICK.width, "batch": QUICK.sequences, "length": length}
        assert row["cache_mebibytes"] == cache_bytes(program, policy=policy, **sizes) / 2**20
        assert row["times_uncached"] == pytest.approx(rows["uncached"]["seconds"] / row["seconds"])
        assert row["tokens_per_second"] * row["seconds"] == pytest.approx(QUICK.sequences * QUICK.generated)


def test_commands_for_text_are_compared_line_by_line_with_another_checkout() -> None:
    rows = list(line_rows(replace(CPU, before=HERE)))
    assert [(row["command"], row["source"]) for row in rows] == [
        (command, source) for command in ("translate", "classify") for source in ("before", "now")
    ]
    assert all(row["lines"] == QUICK.lines and row["same_lines"] == 1 for row in rows)
    assert all(row["times_before"] == 1 for row in rows if row["source"] == "before")


@pytest.mark.skipif(find_browser() is None, reason="no Chromium or Chrome found")
def test_a_page_is_timed() -> None:
    paint, drag, shipped = page_rows(CPU)
    assert (paint["what"], drag["what"]) == ("small model, first paint", "small model, drag to answer")
    assert shipped["what"] == "shipped model, 20 iterations in the worker"
    assert min(float(str(row["seconds"])) for row in (paint, drag, shipped)) > 0


def test_a_page_cannot_be_timed_without_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALGOFORMER_BROWSER", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match="needs Chromium or Chrome; install one"):
        list(page_rows(CPU))


def test_every_kind_of_model_is_decoded_once() -> None:
    rows = list(decoding_rows(replace(CPU, precisions=("fp32", "bf16"))))
    assert list(dict.fromkeys(row["model"] for row in rows)) == ["algoformer", "looped", "standard"]
    assert len(rows) == 3 * 2 * 3  # models, precisions, decoders
