"""Writes docs/python-api.md from the docstrings: python tools/api_page.py > docs/python-api.md

`PUBLIC` is what may be relied upon. A test fails where the page and the code differ, and where a public name has no
words of its own.
"""

import ast
import importlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from hubbub.protocol.value import Value

HEAD = """\
# Python API

Made by `python tools/api_page.py > docs/python-api.md` from the docstrings. What stands here may be relied upon; other
names are the package's own affair and change without notice. Everything is typed. What an app embeds is in the first
section; the protocol and the rest are for analysts, operators and tools.
"""

PUBLIC: dict[str, tuple[str, ...]] = {
    "hubbub.client": ("Client", "Status", "Decision", "Pending", "Transport", "Answer", "Registry", "Invalid"),
    "hubbub.client.testing": ("hubbub_records", "recording"),
    "hubbub.analysis": (
        "decode",
        "decode_lists",
        "crosstab",
        "Crosstab",
        "engine_from",
        "Engine",
        "Options",
        "Decoding",
        "Diagnostics",
        "Distribution",
        "compare",
        "Comparison",
        "active_installs",
        "ActiveInstalls",
        "trend",
        "Point",
        "Annotation",
        "read_annotations",
        "releases",
        "by_segment",
        "within",
        "undivided",
        "read_candidates",
        "read_tallies",
        "read_pair_tallies",
        "fetch_tallies",
        "Tally",
        "Pair",
        "PairTally",
        "Invalid",
    ),
    "hubbub.analysis.render.text": ("table", "comparison_table"),
    "hubbub.analysis.render.export": ("to_csv", "to_json", "comparisons_to_json", "write_parquet"),
    "hubbub.analysis.render.charts": (
        "decoding_chart",
        "bar_chart",
        "cdf_chart",
        "epsilon_chart",
        "save",
    ),
    "hubbub.analysis.render.segment_charts": ("segments_chart",),
    "hubbub.analysis.render.trends": ("series_chart", "trend_chart", "trend_text"),
    "hubbub.dashboard": ("Settings", "make_app"),
    "hubbub.simulations": (
        "Setting",
        "simulate_metric",
        "simulate_clients",
        "SimulationResult",
        "Scorecard",
        "Distribution",
        "default_population",
        "parse_population",
        "weighted_values",
        "Behaviour",
        "audit_registry",
        "audit_callable",
        "Audit",
        "sample_tally",
        "assign_cohorts",
        "ones_of",
    ),
    "hubbub.protocol": (
        "Registry",
        "Metric",
        "Definition",
        "Tally",
        "Report",
        "Batch",
        "Invalid",
        "Pair",
        "PairTally",
        "read_tallies",
        "read_pair_tallies",
        "write_tallies",
        "fetch_tallies",
    ),
    "hubbub.protocol.tally": ("Counts", "count", "merge"),
    "hubbub.protocol.pair": ("PairCounts", "count_pairs"),
    "hubbub.protocol.tally_files": ("Wanted",),
    "hubbub.protocol.wire": ("pack", "unpack", "to_json", "from_json"),
    "hubbub.protocol.report": ("by_short_hash",),
    "hubbub.protocol.shape": ("Shape",),
    "hubbub.protocol.encoding": ("Encoded", "WrongValue"),
    "hubbub.protocol.cadence": ("epoch_of", "epoch_start", "epoch_text", "parse_epoch"),
    "hubbub.client.respond": ("respond", "draw_memo", "draw_bits"),
}
DOORS = ("hubbub.client", "hubbub.analysis", "hubbub.dashboard", "hubbub.simulations", "hubbub.protocol")
PLAIN = ("to_json", "from_json")  # methods that say all by their names


def page() -> str:
    whole = "\n".join([HEAD, *(line for module in PUBLIC for line in section(module))])
    return re.sub(r"\n{3,}(?=#)", "\n\n", whole).rstrip("\n") + "\n"


def section(module_name: str) -> Iterator[str]:
    module = importlib.import_module(module_name)
    yield f"## {module_name}"
    yield ""
    yield words(module)
    yield ""
    own = [name for name in PUBLIC[module_name] if not _is_protocols(module_name, name)]
    for name in own:
        yield from entry(name, getattr(module, name))
    borrowed = [f"`{name}`" for name in PUBLIC[module_name] if name not in own]
    if borrowed:
        yield f"Also here, from hubbub.protocol: {', '.join(borrowed)}."
        yield ""


def _is_protocols(module_name: str, name: str) -> bool:
    """Whether another door shows a name that the protocol's own section explains."""
    return module_name != "hubbub.protocol" and module_name in DOORS and name in PUBLIC["hubbub.protocol"]


def entry(name: str, thing: Any) -> Iterator[str]:
    thing = getattr(thing, "__wrapped__", thing)  # a pytest fixture
    yield f"### {name}"
    yield ""
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        yield from signature(name, thing)
        yield words(thing)
        yield ""
        yield from members(thing)
    elif inspect.isclass(thing):
        yield words(thing)
        yield ""
    else:
        yield from signature(name, thing)
        yield words(thing)
        yield ""


def members(cls: type) -> Iterator[str]:
    """The public methods and properties that a class defines itself."""
    for name, member in vars(cls).items():
        if name.startswith("_") or _is_field(cls, name):
            continue
        bare = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(bare, property):
            if bare.fget and bare.fget.__doc__:
                yield f"* `{name}`: {_one_line(bare.fget)}"
        elif inspect.isfunction(bare):
            shown = str(_short(inspect.signature(bare)))
            said = _one_line(bare) if bare.__doc__ else ""
            yield f"* `{name}{shown}`" + (f": {said}" if said else "")
    yield ""


def signature(name: str, thing: Any) -> Iterator[str]:
    """As one would write the call; a class that only carries values is shown by its fields."""
    if getattr(thing, "_is_protocol", False):  # how one is called: nobody makes one by its name
        thing = thing.__call__
    elif inspect.isclass(thing) and field_names(thing):
        yield "| field | type | meaning |"
        yield "|---|---|---|"
        yield from field_rows(thing)
        yield ""
        return
    whole = f"{name}{_short(inspect.signature(thing))}"
    if len(whole) > 100:
        inside, close, answer = whole.partition("(")[2].rpartition(")")
        lines = re.sub(r", (?=\w+: |\*)", ",\n    ", inside)
        whole = f"{name}(\n    {lines},\n{close}{answer}"
    yield "```text"
    yield whole
    yield "```"
    yield ""


def field_names(cls: type) -> list[str]:
    """The public fields of a dataclass, a named tuple or one of the protocol's values; none for other classes."""
    if is_dataclass(cls):
        names = [field.name for field in fields(cls)]
    elif issubclass(cls, Value):
        names = list(cls.fields)
    else:
        names = list(getattr(cls, "_fields", ()))
    return [name for name in names if not name.startswith("_")]


def field_rows(cls: type) -> Iterator[str]:
    """A row for each field: its type as it is written, its meaning as the line below it or behind it says."""
    said: dict[str, tuple[str, str]] = {}
    for base in reversed(cls.__mro__[:-1]):
        if base.__module__.startswith("hubbub"):
            said |= _annotated(base)
    for name in field_names(cls):
        kind, meaning = said[name]
        assert meaning, f"{cls.__qualname__}.{name} is public, and nothing says what it means"
        yield f"| `{name}` | `{kind.replace('|', chr(92) + '|')}` | {_escaped(meaning)} |"


def _annotated(cls: type) -> dict[str, tuple[str, str]]:
    source = textwrap.dedent(inspect.getsource(cls))
    lines = source.splitlines()
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    found: dict[str, tuple[str, str]] = {}
    for item, following in itertools.pairwise([*body, None]):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            meaning = lines[item.end_lineno - 1][item.end_col_offset :].partition("#")[2].strip()
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                meaning = " ".join(str(following.value.value).split())
            found[item.target.id] = ast.unparse(item.annotation), meaning
    return found


def words(thing: Any) -> str:
    """A docstring as Markdown: what is indented in it is Python."""
    said = inspect.cleandoc(inspect.getdoc(thing) or "")
    assert said, f"{thing!r} is public and has no docstring"
    parts: list[str] = []
    for is_code, lines in itertools.groupby(_marked(said), key=lambda marked: marked[0]):
        text = "\n".join(line for _, line in lines).strip("\n")
        code = textwrap.dedent(text)
        parts.append(f"```{_language(code)}\n{code}\n```" if is_code else _escaped(text))
    return "\n\n".join(parts)


def _marked(text: str) -> list[tuple[bool, str]]:
    """Each line, and whether it belongs to an indented block: empty lines within one do, too."""
    lines = text.splitlines()
    marked = []
    for i, line in enumerate(lines):
        after = next((other for other in lines[i:] if other.strip()), "")
        before = bool(marked) and marked[-1][0]
        marked.append((after.startswith("    ") and (before or bool(line.strip())), line))
    return marked


def _language(code: str) -> str:
    try:
        ast.parse(code)
    except SyntaxError:
        return "text"
    return "python"


def _escaped(text: str) -> str:
    """Stars as they are, but in code: Markdown would take p* ... q* for emphasis."""
    return "`".join(part if i % 2 else part.replace("*", r"\*") for i, part in enumerate(text.split("`")))


def _one_line(thing: Any) -> str:
    return _escaped(" ".join(inspect.cleandoc(thing.__doc__).split()))


def _is_field(cls: type, name: str) -> bool:
    return name in field_names(cls) or name in ("fields", "defaults", "aside")


def _short(found: inspect.Signature) -> str:
    """Without `self` and `cls`, annotations as they are written, functions by their names."""
    shown: list[str] = []
    starred = False
    for parameter in found.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        star = "*" * (parameter.kind is parameter.VAR_POSITIONAL)
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        shown.append(f"{star}{parameter.name}: {parameter.annotation}{default}")
    answer = "" if found.return_annotation in ("None", inspect.Signature.empty) else f" -> {found.return_annotation}"
    return f"({', '.join(shown)}){answer}"


def _default(value: Any) -> str:
    return value.__qualname__ if callable(value) else repr(value)


if __name__ == "__main__":
    print(page(), end="")
