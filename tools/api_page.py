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
from functools import cache
from typing import Any

from hubbub.protocol.value import Value, cached_property

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
    "hubbub.protocol.refusal": ("Refused",),
    "hubbub.protocol.report": ("by_short_hash",),
    "hubbub.protocol.shape": ("Shape",),
    "hubbub.protocol.encoding": ("Encoded", "WrongValue"),
    "hubbub.protocol.cadence": ("epoch_of", "epoch_start", "epoch_text", "parse_epoch"),
    "hubbub.client.respond": ("respond", "draw_memo", "draw_bits"),
}
DOORS = ("hubbub.client", "hubbub.analysis", "hubbub.dashboard", "hubbub.simulations", "hubbub.protocol")


def page() -> str:
    explained: set[str] = set()
    whole = "\n".join([HEAD, *(line for module in PUBLIC for line in section(module, explained))])
    return re.sub(r"\n{3,}(?=#)", "\n\n", whole).rstrip("\n") + "\n"


def section(module_name: str, explained: set[str]) -> Iterator[str]:
    """What a module has for others, and behind it the types that this names and no section before has explained."""
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
    types = [found for name in own for found in types_of(getattr(module, name))]
    new = [(name, home) for name, home in dict.fromkeys(types) if f"{home}.{name}" not in explained]
    explained |= {f"{home}.{name}" for name, home in new}
    if new:
        yield "Types that are named above:"
        yield ""
        yield from itertools.starmap(explanation, sorted(new))
        yield ""


def _is_protocols(module_name: str, name: str) -> bool:
    """Whether another door shows a name that the protocol's own section explains."""
    return module_name != "hubbub.protocol" and module_name in DOORS and name in PUBLIC["hubbub.protocol"]


def entry(name: str, thing: Any) -> Iterator[str]:
    thing = getattr(thing, "__wrapped__", thing)  # a pytest fixture
    yield f"### {name}"
    yield ""
    is_class = inspect.isclass(thing)
    if not (is_class and issubclass(thing, Exception)):  # those are caught, and made by nobody else
        yield from signature(name, thing)
    yield words(thing)
    yield ""
    if is_class:
        yield from members(thing)


def members(cls: type) -> Iterator[str]:
    """The public attributes, properties and methods of a class, each with its type and its meaning. What it has from
    a class that is on the page as well is said in one line."""
    for name in member_names(cls):
        kind, meaning = _member(cls, name)
        assert meaning, f"{cls.__qualname__}.{name} is public, and nothing says what it means"
        yield f"* `{name}{kind}`: {_escaped(meaning)}"
    for base in _public_bases(cls):
        yield f"* and all of [`{base.__name__}`](#{base.__name__.lower()})"
    yield ""


def member_names(cls: type) -> list[str]:
    """The public names of a class that are neither fields nor from a class that has an entry of its own."""
    aside = {name for base in _public_bases(cls) for parent in base.__mro__ for name in _own_names(parent)}
    own = [name for part in _own_parts(cls) for name in _own_names(part)]
    return [name for name in dict.fromkeys(own) if name not in aside or name in _own_names(cls)]


def _own_names(cls: type) -> list[str]:
    """Annotated names first, as they are written above what a class does."""
    names = dict.fromkeys([*inspect.get_annotations(cls), *vars(cls)])
    return [name for name in names if not name.startswith("_") and not _is_field(cls, name)]


def _own_parts(cls: type) -> list[type]:
    """The class and those it is made of, as far as they are hubbub's and the page has no entry for them."""
    aside = {parent for base in _public_bases(cls) for parent in base.__mro__}
    return [part for part in cls.__mro__ if part.__module__.startswith("hubbub") and part not in {*aside, Value}]


def _public_bases(cls: type) -> list[type]:
    shown = {name for names in PUBLIC.values() for name in names}
    return [base for base in cls.__bases__ if base.__module__.startswith("hubbub") and base.__name__ in shown]


def _member(cls: type, name: str) -> tuple[str, str]:
    """How a member's type or call is written, and what is said of it."""
    member = inspect.getattr_static(cls, name, None)
    bare = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    found = _getter(bare)
    if found:
        return f": {inspect.signature(found).return_annotation}", _one_line(found)
    if inspect.isfunction(bare):
        return _short(inspect.signature(bare)), _one_line(bare)
    said = {name: said for part in reversed(_own_parts(cls)) for name, said in _annotated(part).items()}
    kind, meaning = said.get(name, ("", ""))
    return f": {re.sub(r'^ClassVar.(.*).$', chr(92) + '1', kind)}", meaning


def _getter(member: Any) -> Any:
    """The function behind a property, plain or cached; None for anything else."""
    if isinstance(member, property):
        return member.fget
    return getattr(member, "_find" if isinstance(member, cached_property) else "func", None)


def signature(name: str, thing: Any) -> Iterator[str]:
    """As one would write the call; a class that only carries values is shown by its fields."""
    if getattr(thing, "_is_protocol", False):  # how one is called: nobody makes one by its name
        if "__call__" not in vars(thing):
            return
        thing = thing.__call__
    elif inspect.isclass(thing) and issubclass(thing, Value) and not field_names(thing):  # nobody makes one of these
        return
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
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, tuple[str, str]] = {}
    for item, following in itertools.pairwise([*definition.body, None]):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            meaning = lines[item.end_lineno - 1][item.end_col_offset :].partition("#")[2].strip()
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                meaning = " ".join(str(following.value.value).split())
            found[item.target.id] = ast.unparse(item.annotation), meaning
    return found


def types_of(thing: Any) -> Iterator[tuple[str, str]]:
    """The types of hubbub that the entry of a public name shows and the page has no entry for, each with the module
    that defines it."""
    thing = getattr(thing, "__wrapped__", thing)
    if not inspect.isclass(thing):
        yield from _types_in(list(map(str, thing.__annotations__.values())), thing.__module__)
        return
    for name in member_names(thing):
        part = next(part for part in _own_parts(thing) if name in _own_names(part))
        yield from _types_in([_member(thing, name)[0]], part.__module__)
    for part in reversed(_own_parts(thing)):
        said = _annotated(part)
        yield from _types_in([said[name][0] for name in field_names(thing) if name in said], part.__module__)
    if not field_names(thing) and "__init__" in vars(thing) and not getattr(thing, "_is_protocol", False):
        yield from _types_in(list(map(str, thing.__init__.__annotations__.values())), thing.__module__)


def _types_in(annotations: list[str], module: str) -> Iterator[tuple[str, str]]:
    shown = {name for names in PUBLIC.values() for name in names}
    for annotation in annotations:
        for name in re.findall(r"\b[A-Z]\w+", annotation):
            found = None if name in shown else _defined(name, module)
            if found:
                yield name, found[0]


def explanation(name: str, home: str) -> str:
    """One line about a type: what an alias stands for, what a class holds."""
    definition = _defined(name, home)
    assert definition is not None, f"{home} uses {name}, which no module of ours defines"
    _, item, said = definition
    assert said, f"{home}.{name} is the type of something public, and nothing says what it means"
    if not isinstance(item, ast.ClassDef):
        return f"* `{name}` = `{ast.unparse(item.value)}`: {_escaped(said)}"
    held = [f"`{ast.unparse(field.target)}: {ast.unparse(field.annotation)}`" for field in _fields_of(item)]
    return f"* `{name}`: {_escaped(said)}" + (f" It holds {', '.join(held)}." if held else "")


def _fields_of(item: ast.ClassDef) -> list[ast.AnnAssign]:
    found = [field for field in item.body if isinstance(field, ast.AnnAssign)]
    return [field for field in found if not ast.unparse(field).startswith("_") and "ClassVar" not in ast.unparse(field)]


def _defined(name: str, module: str) -> tuple[str, Any, str] | None:
    """The module that defines a type which this one names, the statement, and what it says of it. None where that is
    not hubbub, or stands for any type at all. Read from the source: many are there for type checkers alone."""
    if not module.startswith("hubbub"):
        return None
    for item, following in itertools.pairwise([*_statements(module), ast.Pass()]):
        match item:
            case ast.ClassDef(name=found) if found == name:
                return module, item, " ".join((ast.get_docstring(item) or "").partition("\n\n")[0].split())
            case ast.Assign(targets=[ast.Name(id=found)]) if found == name:
                said = following.value if isinstance(following, ast.Expr) else None
                text = str(said.value) if isinstance(said, ast.Constant) else ""
                return (module, item, " ".join(text.split())) if text or not isinstance(item.value, ast.Call) else None
            case ast.ImportFrom(module=str(other), names=names) if name in [alias.name for alias in names]:
                return _defined(name, other)
    return None


@cache
def _statements(module: str) -> list[ast.stmt]:
    """Of a module, those under an `if` as well."""
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    return [part for item in body for part in ([*item.body, *item.orelse] if isinstance(item, ast.If) else [item])]


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
    return " ".join(inspect.cleandoc(thing.__doc__ or "").split())


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
