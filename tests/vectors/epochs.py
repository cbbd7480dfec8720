"""Section 6, and the draw of a cohort: the second implementation's own calendar, in whole numbers and no library's.

A day is found by whole seconds. Months are those of years that begin in March, so that a leap day is the last of its
year: 400 such years have 146,097 days.
"""

SECONDS = 86_400
LAST_DAY = 2_932_892  # 9999-12-27

MOMENTS = {
    "before all time": -1,
    "the first second": 0,
    "a quarter before the second day": 86_399.75,
    "the second day": 86_400,
    "a Thursday afternoon, nearer to Friday": 43_201,
    "the first Sunday": 259_200,
    "the last half second of it": 345_599.5,
    "the first Monday": 345_600,
    "a leap day": 951_825_600,
    "the day after it": 951_868_800,
    "2024-12-30, in a week of the year after": 1_735_516_800,
    "the last second of November": 1_796_083_199,
    "the first of December": 1_796_083_200,
    "a Sunday evening, 2026-11-15": 1_794_787_199.999,
    "a Monday, 2026-11-16": 1_794_787_200,
    "new year 2027, in a week of the year before": 1_798_761_600,
    "the last of February 2100, no leap year": 4_107_542_399,
    "the first of March 2100": 4_107_542_400,
    "the end of years with four digits": 253_402_300_799,
    "beyond it": 10**15,
}
COHORTS = (1, 2, 3, 4, 64, 256, 257, 65_536)
NUMBERS = (0, 1, 2**61 - 1, 2**61, 2**62 // 3, 2**62 // 3 + 1, 3_141_592_653_589_793_238, 2**62 - 1)


def epochs():
    return [
        {
            "about": about,
            "moment": moment,
            "every": every,
            "epoch": epoch_of(every, moment),
            "start": start_of(every, epoch_of(every, moment)),
            "text": text_of(every, epoch_of(every, moment)),
        }
        for about, moment in MOMENTS.items()
        for every in ("day", "week", "month", "once")
    ]


def cohorts():
    """Numbers as texts: they have 62 bits, beyond what some JSON readers hold exactly."""
    return [
        {"number": str(number), "num_cohorts": num_cohorts, "cohort": number * num_cohorts // 2**62}
        for number in NUMBERS
        for num_cohorts in COHORTS
    ]


def epoch_of(every, moment):
    day = min(max(int(moment // SECONDS), 0), LAST_DAY)
    if every == "day":
        return day
    if every == "week":
        return (day + 3) // 7
    year, month, _ = date_of(day)
    return 12 * (year - 1970) + month - 1


def start_of(every, epoch):
    if every == "day":
        return SECONDS * epoch
    if every == "week":
        return SECONDS * (7 * epoch - 3)
    return SECONDS * day_of(1970 + epoch // 12, epoch % 12 + 1, 1)


def text_of(every, epoch):
    if every == "day":
        return "{:04d}-{:02d}-{:02d}".format(*date_of(epoch))
    if every == "week":
        year, _, _ = date_of(7 * epoch)  # the Thursday of a week is in its year
        return f"{year:04d}-W{(7 * epoch - day_of(year, 1, 1)) // 7 + 1:02d}"
    return f"{1970 + epoch // 12:04d}-{epoch % 12 + 1:02d}"


def day_of(year, month, day):
    years = year - (month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * years + years // 4 - years // 100 + years // 400 + of_year - 719_468


def date_of(day):
    year = 1970 + day // 366
    while day_of(year + 1, 1, 1) <= day:
        year += 1
    month = 12
    while day_of(year, month, 1) > day:
        month -= 1
    return year, month, day - day_of(year, month, 1) + 1
