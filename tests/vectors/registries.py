"""The registries of the compiled and behaviour vectors, as the TOML that an app would ship.

What hubbub would choose for the least error is stated, but in the one called `left out`.
"""

HEAD = """app = "org.example.port"
recipient = { name = "Example", url = "https://telemetry.example.org" }
lifetime_epsilon = 40
"""


def metric(name, kind, every="day", max_values=2, one=1, permanent=2, **keys):
    """A table of one metric; texts are TOML already."""
    noise = {"epsilon_one_report": one, "epsilon_permanent": permanent}
    if "hold" in keys:
        noise = {"epsilon_history": permanent}
    terms = {"why": f'"To learn about {name}"', "owner": '"us@example.org"', "expires": "2030-01-01"}
    given = {"kind": f'"{kind}"', "every": f'"{every}"', "max_values": max_values, **noise, **terms, **keys}
    return "\n".join([f"[metrics.{name}]", *(f"{key} = {value}" for key, value in given.items())]) + "\n"


LANGUAGES = '["c", "go", "rust"]'
THEME = metric("theme", "flag")
LANGUAGE = metric("language", "choice", "week", choices=LANGUAGES)
SMALL = HEAD + THEME + LANGUAGE
SEGMENTS = '[segments]\nrelease = ["2.0", "2.1"]\nplatform = ["linux", "macos"]\n'

REGISTRIES = {
    "small": SMALL,
    "another lifetime": SMALL.replace("lifetime_epsilon = 40", "lifetime_epsilon = 8"),
    "a metric more": SMALL + metric("crashed", "flag"),
    "another purpose": SMALL.replace("To learn about theme", "To sell"),
    "theme only": HEAD + THEME,
    "other questions": HEAD.replace("40", "8") + metric("crashed", "flag") + metric("icons", "flag"),
    "numbers": HEAD
    + metric("startup", "mean", low=0, high=30, absent=0, unit='"s"', points=2)
    + metric("exports", "histogram", accumulate='"sum"', edges='[0, "3/10", 3, 10, 30]', buckets_per_report=4)
    + metric("memory", "histogram", accumulate='"max"', edges="[0, 0.5, 1, 4]", buckets_per_report=1)
    + metric("latency", "range", low=0, high=16, num_leaves=16, branching=4, accumulate='"last"', max_values=8),
    "lists": HEAD
    + metric("features", "set", items='["a", "b", "c", "d"]', items_per_report=2)
    + metric("editor", "choice", choices="[" + ", ".join(f'"e{i}"' for i in range(12)) + "]", absent='"e3"')
    + metric("crashed", "flag", accumulate='"any"', absent="true"),
    "texts": HEAD.replace("40", "60")
    + metric("page", "string", num_bits=16, num_hashes=2, num_cohorts=4, max_values=3)
    + metric("parity", "string", num_bits=1, num_hashes=1, num_cohorts=2)
    + metric("plugin", "string", discover="true", alphabet='"host"', max_length=4, lowercase="true", step=2).replace(
        "step = 2", "step = 2\nnum_bits = 8\nnum_groups = 2"
    ),
    "once": HEAD
    + metric(
        "found_by", "choice", "once", 1, one=1, permanent=1, choices="[" + ", ".join(f'"f{i}"' for i in range(9)) + "]"
    )
    + metric("size", "mean", "month", 3, one=2, permanent=3, low=0, high=9, absent=0, points=3),
    "histories": HEAD
    + metric("theme", "flag", max_values=2, permanent=2, hold=3)
    + metric("language", "choice", max_values=2, permanent=4, hold=2, choices=LANGUAGES)
    + metric("page", "string", max_values=2, permanent=4, hold=2, num_bits=8, num_hashes=1, num_cohorts=2)
    + metric("features", "set", max_values=2, permanent=4, hold=1, items='["a", "b", "c"]', items_per_report=2),
    "segments": HEAD + SEGMENTS + THEME,
    "segments, later": HEAD + SEGMENTS.replace('"2.0", "2.1"', '"2.1", "2.2"') + THEME,
    "left out": HEAD
    + metric("startup", "mean", max_values=4, one=3, permanent=3, low=0, high=30, absent=0)
    + metric("memory", "mean", max_values=4, permanent=4, hold=2, low=0, high=30, absent=0)
    + metric("features", "set", one=5, permanent=6, items="[" + ", ".join(f'"i{i}"' for i in range(9)) + "]")
    + metric("plugins", "set", permanent=8, hold=2, items="[" + ", ".join(f'"i{i}"' for i in range(9)) + "]")
    + metric("extension", "string", discover="true", alphabet='"host"', max_length=4),
    # 8 cohorts cut a line into 8 pieces, 7 into 7, both into 14: more than 2**3.
    "eight cohorts": HEAD
    + "max_identifying_bits = 3\n"
    + metric("page", "string", num_bits=4, num_hashes=1, num_cohorts=8),
    "seven cohorts": HEAD
    + "max_identifying_bits = 3\n"
    + metric("place", "histogram", edges="[0, 1, 2, 3, 4, 5, 6, 7]", buckets_per_report=1)
    + THEME,
    "crosses": HEAD
    + THEME.replace("2030-01-01", "2026-11-19")
    + metric("os", "choice", choices='["linux", "macos"]')
    + metric("exports", "histogram", accumulate='"sum"', edges="[0, 1, 3, 10]", buckets_per_report=1)
    + metric("memory", "histogram", edges="[0, 1, 4]", buckets_per_report=2)
    + metric("startup", "mean", low=0, high=30, absent=29, points=2)
    + metric("os_exports", "cross", of='["os", "exports"]')
    + metric("theme_startup", "cross", of='["theme", "startup"]')
    + metric("memory_theme", "cross", of='["memory", "theme"]', max_values=3),
    "soon over": SMALL.replace("expires = 2030-01-01", "expires = 2026-11-18", 1),
}
