"""An Excel workbook has the rows of the CSV, with types; no text in it is a formula; the same results give the same
bytes. It is read here as what it is, XML in a zip file, so that no other library has to be believed."""

from __future__ import annotations

import csv
import re
import zipfile
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.analysis.render import excel
from hubbub.analysis.render.export import to_csv
from hubbub.analysis.result import first_and_last_day
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.tally_files import read_tallies

ROOT = Path(__file__).parents[3]
TALLIES = ROOT / "examples" / "tallies"
SPACE = {"x": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}


def cells(path: Path, sheet: int = 1) -> list[dict[str, str]]:
    """The rows of a sheet, by column letter; texts are looked up, dates are days since 1899-12-30."""
    with zipfile.ZipFile(path) as book:
        shared = ElementTree.fromstring(book.read("xl/sharedStrings.xml"))
        texts = ["".join(part.text or "" for part in item.iter(f"{{{SPACE['x']}}}t")) for item in shared]
        rows = ElementTree.fromstring(book.read(f"xl/worksheets/sheet{sheet}.xml")).findall(".//x:row", SPACE)
    found = []
    for row in rows:
        found.append({})
        for cell in row.findall("x:c", SPACE):
            value = cell.findtext("x:v", "", SPACE)
            letter = re.sub(r"\d", "", cell.get("r", ""))
            found[-1][letter] = texts[int(value)] if cell.get("t") == "s" else value
            assert cell.find("x:f", SPACE) is None, "a formula"
    return found


@pytest.fixture(scope="module")
def decodings():
    (flag,), (homepage,) = read_tallies(str(TALLIES / "dark_theme.json")), read_tallies(str(TALLIES / "homepage.json"))
    return [
        decode(flag),
        decode(homepage, ['=HYPERLINK("http://evil.example")', "https://news.example/", "+1", "\x07"]),
    ]


def test_a_workbook_has_the_rows_of_the_csv_with_types(decodings, tmp_path: Path) -> None:
    excel.write_excel(decodings, str(tmp_path / "found.xlsx"))
    head, *rows = cells(tmp_path / "found.xlsx")
    wanted = list(csv.DictReader(to_csv(decodings).splitlines()))
    assert list(head.values()) == list(wanted[0])
    assert len(rows) == len(wanted)
    names = dict(head)
    for row, expected in zip(rows, wanted, strict=True):
        for letter, name in names.items():
            cell, text = row.get(letter, ""), expected[name]
            if name in ("from", "to"):
                assert np.datetime64("1899-12-30") + int(cell) == np.datetime64(text)
            elif name in ("metric", "segment", "epochs", "value"):
                assert unescape(cell).replace("_x0007_", "\x07") == text.removeprefix("'"), name
            elif name == "detected":
                assert {"1": "true", "0": "false", "": ""}[cell] == text
            else:
                assert (float(cell) if cell else None) == (pytest.approx(float(text), rel=1e-14) if text else None), (
                    name
                )
    about = cells(tmp_path / "found.xlsx", 2)
    assert [row["A"] for row in about] == ["metric", "dark_theme", "homepage"]


def test_the_same_results_give_the_same_bytes(decodings, tmp_path: Path) -> None:
    for name in ("one", "two"):
        excel.write_excel(decodings, str(tmp_path / name))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with zipfile.ZipFile(tmp_path / "one") as book:  # also when they are not written in the same second
        assert {info.date_time[0] for info in book.infolist()} == {1980}
        moments = re.findall(r"\d{4}-\d\d-\d\dT[\d:]+Z", book.read("docProps/core.xml").decode())
    assert set(moments) == {"2000-01-01T00:00:00Z"}


def test_more_rows_than_a_sheet_has_are_refused(decodings, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(excel, "MOST_ROWS", 3)
    with pytest.raises(Invalid, match=r"a sheet of Excel must have at most 3 rows, got \d+: write CSV or Parquet"):
        excel.write_excel(decodings, str(tmp_path / "x.xlsx"))


@pytest.mark.parametrize(
    ("epochs", "days"),
    [
        (("2026-11-16",), ("2026-11-16", "2026-11-16")),
        (("2026-W47", "2026-W45"), ("2026-11-02", "2026-11-22")),
        (("2026-12", "2027-01", "2027-02"), ("2026-12-01", "2027-02-28")),
        (("2026-W53",), ("2026-12-28", "2027-01-03")),
        ((), (None, None)),
    ],
)
def test_from_and_to_are_the_first_and_the_last_day(epochs, days) -> None:
    assert first_and_last_day(epochs) == days
