import csv
import gzip
import hashlib
from pathlib import Path

import pytest

from paper.corpora.files import Reader, UnknownFileWarning, decode


def write(path: Path, raw: bytes) -> str:
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_line_ends_at_a_line_feed_only(tmp_path: Path) -> None:
    write(tmp_path / "a.de.gz", "eins\u2028noch eins\r\nzwei\x85\n\ndrei".encode())
    assert Reader(tmp_path).lines("a.de.gz") == ["eins\u2028noch eins", "zwei\x85", "", "drei"]


def test_rows_keep_line_breaks_and_quotes_and_huge_fields(tmp_path: Path) -> None:
    huge = "x" * 200_000
    write(tmp_path / "a.csv", f'label,text\r\n0,"one\ntwo, ""three"""\r\n\r\n1,{huge}\r\n'.encode())
    before = csv.field_size_limit()
    rows = [row for _, row in Reader(tmp_path).rows("a.csv")]
    assert rows == [["label", "text"], ["0", 'one\ntwo, "three"'], ["1", huge]]
    assert csv.field_size_limit() == before


def test_lines_in_another_encoding_are_read_and_reported(tmp_path: Path) -> None:
    write(tmp_path / "a.de", "schön\n".encode() + "grün – „gut“\n".encode("cp1252") + b"odd \x81\n")
    reader = Reader(tmp_path)
    assert reader.lines("a.de") == ["schön", "grün – „gut“", "odd \x81"]
    assert reader.notes == ["a.de: 2 line(s) were not UTF-8 and were read as Windows-1252"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_marks_of_the_encoding_are_understood(encoding: str) -> None:
    assert decode("für\nalle".encode(encoding)) == ("für\nalle", 0)


def test_a_cut_off_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"text " * 1000)[:-20])
    with pytest.raises(ValueError, match=r"a\.de\.gz is cut off or not gzip"):
        Reader(tmp_path).text("a.de.gz")


def test_a_known_file_is_read_in_silence_and_its_sum_kept(tmp_path: Path) -> None:
    digest = write(tmp_path / "a.de", b"text")
    reader = Reader(tmp_path, {"a.de": digest}, strict=True)
    assert reader.text("a.de") == "text"
    assert (reader.files, reader.notes) == ({"a.de": digest}, [])


def test_another_content_is_a_warning_or_when_strict_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.de", b"text")
    known = {"a.de": "0" * 64}
    with pytest.raises(ValueError, match=r"a\.de is not the file that this library knows.*strict=False"):
        Reader(tmp_path, known, strict=True).text("a.de")
    reader = Reader(tmp_path, known)
    with pytest.warns(UnknownFileWarning, match="may not be comparable"):
        assert reader.text("a.de") == "text"
    assert len(reader.notes) == 1


def test_the_compressed_file_comes_first(tmp_path: Path) -> None:
    write(tmp_path / "a.de", b"")
    assert Reader(tmp_path).find("a.de") == "a.de"
    write(tmp_path / "a.de.gz", b"")
    assert Reader(tmp_path).find("a.de") == "a.de.gz"
    assert Reader(tmp_path).find("b.de") is None


def test_a_compressed_file_cannot_unpack_to_far_more_than_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paper.corpora.files.ALWAYS_ALLOWED", 1000)
    (tmp_path / "bomb.de.gz").write_bytes(gzip.compress(b"a" * 10**7))
    (tmp_path / "small.de.gz").write_bytes(gzip.compress(b"a" * 1000))
    with pytest.raises(ValueError, match=r"bomb\.de\.gz unpacks to more than 100 times its size"):
        Reader(tmp_path).text("bomb.de.gz")
    assert Reader(tmp_path).text("small.de.gz") == "a" * 1000
