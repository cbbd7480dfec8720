"""What docs/dashboard.md shows for other programs: a dashboard that asks for a token, read by curl."""

from __future__ import annotations

import asyncio
import csv
import re
import shutil
from pathlib import Path

import pytest

from tests.dashboard.kit import REGISTRY, TOKEN, ToldCollector, sample, visiting

PAGE = Path(__file__).parents[2] / "docs" / "dashboard.md"
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")]


async def test_the_command_of_the_page_reads_each_period() -> None:
    (shown,) = re.findall(r"^ +(curl .*)$", PAGE.read_text(), re.MULTILINE)
    collector = ToldCollector({"dark_theme": sample(REGISTRY["dark_theme"], 3)})
    async with collector.running() as url, visiting(url) as client:
        command = shown.replace("http://127.0.0.1:8788/", str(client.make_url("/")))
        for token, status in ((TOKEN, 0), ("wrong", 22)):  # 22: with -f, an answer of 400 or more
            words = command.replace("TOKEN", token)
            curl = await asyncio.create_subprocess_exec("bash", "-c", words, stdout=asyncio.subprocess.PIPE)
            printed, _ = await curl.communicate()
            assert curl.returncode == status
            rows = list(csv.DictReader(printed.decode().splitlines()))
            assert [row["to"] for row in rows] == (["2026-11-03", "2026-11-04", "2026-11-05"] if status == 0 else [])
