"""docs/client-contract.md as a program: one install in virtual time, kept in dictionaries. Nothing of hubbub.

It notes every number that chance gives it, by name, so that another client can be given the same ones.
"""

from answers import Answers
from drawing import random_bytes
from epochs import SECONDS as DAY
from epochs import epoch_of, start_of
from rules import STORED, combined, full_hour_after, groups, has_mask, holds, judged, known
from wire import sealed

HOUR = 3600
LOOK_EVERY, LONGEST_WAIT = 900, 900
CADENCES = ("once", "day", "week", "month")
COUNTED = ("made", "absent", "clamped", "overflowed", "expired", "sent")


class Install(Answers):
    """`identities` are the keys and numbers it draws, one for each life; `network` is what is said to each message."""

    def __init__(self, label, identities, network):
        self.label, self.identities, self.network = label, identities, list(network)
        self.lives = [{"key": key.hex(), "number": str(number), "draws": []} for key, number in identities]
        self.draws, self.messages, self.noted = [], [], set()
        self.life, self.running, self.waiting = -1, None, {}
        self.clear()

    def clear(self):
        self.answer = self.agreed = self.reserved_for = self.lifetime = self.who = None
        self.answered_at = self.carried = self.failures = self.retry_at = 0
        self.cohorts, self.ledger, self.memos, self.epochs = set(), {}, {}, {}
        self.reports, self.gathered, self.outbox, self.counts = {}, {}, [], {}

    # --- chance, by name ------------------------------------------------------------------------------------------

    def note(self, draws, numbers, **name):
        if (id(draws), *name.items()) not in self.noted:
            self.noted.add((id(draws), *name.items()))
            draws.append({**name, "numbers": numbers})
        return numbers

    def by_key(self, numbers, **name):
        return self.note(self.lives[self.life]["draws"], numbers, **name)

    def moment(self, draw, every, epoch, attempt):
        """A part of one, in 65,536ths, so that doubles are exact."""
        (number,) = self.note(
            self.draws,
            [int.from_bytes(random_bytes(f"{self.label} {draw} {every} {epoch} {attempt}", 2), "little") << 32],
            **{"draw": draw, "every": every, "epoch": epoch, "attempt": attempt},
        )
        return number / 2**48

    def new_id(self, every, epoch, attempt):
        found = random_bytes(f"{self.label} id {every} {epoch} {attempt}", 16)
        self.note(self.draws, [found.hex()], draw="id", every=every, epoch=epoch, attempt=attempt)
        return found

    # --- who it is ------------------------------------------------------------------------------------------------

    def ensure_identity(self):
        if self.who is None:
            self.life += 1
            self.who = self.identities[self.life]

    def cohort(self, metric):
        return self.who[1] * metric["num_cohorts"] >> 62

    def width(self, metric):
        return metric["widths"][self.cohort(metric) if len(metric["widths"]) > 1 else 0]

    def vector(self, metric, bits):
        return bits.to_bytes(-(-self.width(metric) // 8), "little")

    # --- the person -----------------------------------------------------------------------------------------------

    def mode(self):
        """Mode and reason, without the endpoint."""
        environ = self.running["environ"]
        if self.answer == "no":
            return "off", "declined"
        if environ.get("DO_NOT_TRACK", "").strip().lower() not in ("", "0", "false"):
            return "off", "do_not_track"
        if self.answer is None:
            return "local", "not_asked"
        if not holds(self.agreed, self.running["registry"]["agreement"]):
            return "local", "asks_more"
        return "on", "agreed"

    def decide(self):
        mode, reason = self.mode()
        if mode != "on":
            self.discard_unsent()
        elif self.running["endpoint"] != self.running["registry"]["recipient"]["url"]:
            mode, reason = "local", "wrong_endpoint" if self.running["endpoint"] else "no_endpoint"
        self.running["mode"], self.running["reason"] = mode, reason
        if mode != "on":
            self.close_past()
        self.wake = float("inf")
        if mode == "on":
            self.look()
            self.step()

    def consent(self, agreed):
        if not agreed:
            self.answer = "no"
        elif self.answer != "yes" or not holds(self.agreed, self.running["registry"]["agreement"]):
            self.answer, self.agreed = "yes", self.running["registry"]["agreement"]
            self.answered_at = self.now // DAY * DAY
        self.decide()

    def discard_unsent(self):
        self.outbox, self.reports, self.gathered = [], {}, {}
        self.epochs = {epoch: (True, segment) for epoch, (_, segment) in self.epochs.items()}

    def close_past(self):
        for (every, epoch), (_, segment) in self.epochs.items():
            if epoch < epoch_of(every, self.now):
                self.epochs[every, epoch] = True, segment
        self.reports = {w: row for w, row in self.reports.items() if w[1] >= epoch_of(row[0], self.now)}
        self.drop_gathered()

    def drop_gathered(self):
        cadence = {m["metric_hash"]: m["every"] for m in self.running["registry"]["metrics"]}
        present = {w: v for w, v in self.gathered.items() if w[0] in cadence}
        self.gathered = {w: v for w, v in present.items() if w[1] == epoch_of(cadence[w[0]], self.now)}

    def forget(self):
        committed = sum(row["slots"] * row["micro"] for row in self.ledger.values() if row["asked_in"] is not None)
        carried, lifetime = committed + self.carried, self.lifetime
        self.clear()
        self.carried, self.lifetime, self.answer, self.waiting = carried, lifetime, "no", {}
        self.decide()

    def copied(self):
        self.discard_unsent()
        if self.answer == "yes":
            self.answer = None

    # --- the budget -----------------------------------------------------------------------------------------------

    def reserve(self):
        registry = self.running["registry"]
        if self.reserved_for == registry["agreement"]:
            return
        self.reserved_for = registry["agreement"]
        limits = [registry["lifetime_micro_epsilon"], *([] if self.lifetime is None else [self.lifetime])]
        self.lifetime = min(limits)
        room = self.lifetime - self.set_aside()
        segments = len(registry["segments"]["combinations"])
        for metric in registry["metrics"]:
            row = self.ledger.get(metric["metric_hash"], {"slots": 0, "asked_in": None})
            cost = (metric["slots"] - row["slots"]) * metric["micro_epsilon"]
            cohorts = self.cohorts | {metric["num_cohorts"]}
            few = segments * groups(cohorts) <= 2 ** registry["max_identifying_bits"]
            if metric["slots"] > row["slots"] and cost <= room and few:
                room, self.cohorts = room - cost, cohorts
                if "history" in metric["noise"] and row["asked_in"] is None:
                    row["asked_in"] = epoch_of(metric["every"], self.answered_at) + 1
                self.ledger[metric["metric_hash"]] = {**row, "slots": metric["slots"], "micro": metric["micro_epsilon"]}

    def set_aside(self):
        return sum(row["slots"] * row["micro"] for row in self.ledger.values()) + self.carried

    def spent(self):
        return sum(self.ledger[name]["micro"] for name, _ in self.memos) + self.carried

    # --- time -----------------------------------------------------------------------------------------------------

    def pass_until(self, moment):
        while self.running and self.wake <= moment:
            self.now = max(self.now, self.wake)
            self.step()
        self.now = moment

    def step(self):
        if not self.looked_at <= self.now < self.looks_at:
            self.look()
        self.send()
        self.wake = min([self.looks_at, *self.departures()[:1]])

    def departures(self):
        self.outbox.sort(key=lambda message: (message["not_before"], message["id"]))
        return [max(message["not_before"], self.retry_at) for message in self.outbox]

    def look(self):
        self.ensure_identity()
        self.reserve()
        present = [every for every in CADENCES if any(m["every"] == every for m in self.running["registry"]["metrics"])]
        for every in present:
            for (cadence, epoch), (is_sealed, segment) in sorted(self.epochs.items()):
                if cadence == every and epoch < epoch_of(every, self.now) and not is_sealed:
                    self.seal(every, epoch, segment)
        self.drop_gathered()
        for every in present:
            epoch = epoch_of(every, self.now)
            if epoch > epoch_of(every, self.answered_at):
                self.epochs.setdefault((every, epoch), (False, self.running["segment"]))
                if not self.epochs[every, epoch][0]:
                    self.ask(every, epoch)
        for name, (metric, value, epoch, since) in list(self.waiting.items()):
            if abs(self.now - since) <= LONGEST_WAIT and (metric["every"], epoch) in self.epochs:
                self.take(metric, value, epoch)
            del self.waiting[name]
        self.drop_old()
        self.looked_at, self.looks_at = self.now, min(self.now + LOOK_EVERY, (self.now // DAY + 1) * DAY)

    def ask(self, every, epoch):
        for metric in self.asked_in(every, epoch):
            row = self.ledger[metric["metric_hash"]]
            row["asked_in"] = epoch if row["asked_in"] is None else row["asked_in"]
            if "history" in metric["noise"]:
                self.flags(metric)

    def drop_old(self):
        for message in list(self.outbox):
            if self.now - start_of(message["every"], message["epoch"] + 1) > 28 * DAY:
                self.outbox.remove(message)
                self.count("dropped_too_old", message["reports"])

    def count(self, name, number=1):
        self.counts[name] = self.counts.get(name, 0) + number

    # --- what is asked, and what is answered ----------------------------------------------------------------------

    def asked_in(self, every, epoch):
        return [m for m in self.running["registry"]["metrics"] if m["every"] == every and self.is_asked(m, epoch)]

    def is_asked(self, metric, epoch):
        row = self.ledger.get(metric["metric_hash"])
        return (
            row is not None
            and epoch > epoch_of(metric["every"], self.answered_at)
            and start_of(metric["every"], epoch) < metric["expires_at"]
            and (metric["every"] != "once" or row["asked_in"] in (None, epoch))
            and ("history" not in metric["noise"] or self.has_turn(metric, epoch))
        )

    def record(self, name, value):
        metric = next(m for m in self.running["registry"]["metrics"] if m["name"] == name)
        epoch = epoch_of(metric["every"], self.now)
        if self.running["mode"] != "on" or not has_mask(metric, value):
            return
        if all(start_of(metric["every"], epoch) >= each["expires_at"] for each in (metric, *self.crosses_of(metric))):
            return self.count("expired")
        if (metric["every"], epoch) in self.epochs:
            self.take(metric, value, epoch)
        elif epoch > epoch_of(metric["every"], self.answered_at) and name not in self.waiting:
            self.waiting[name] = metric, value, epoch, self.now
        elif name in self.waiting and metric["accumulate"] != "first":
            before = self.waiting[name]
            self.waiting[name] = (metric, combined(metric, before[1], value), *before[2:])

    def take(self, metric, value, epoch):
        if self.epochs[metric["every"], epoch][0]:
            return
        which, asked = (metric["metric_hash"], epoch), self.is_asked(metric, epoch)
        crosses = [cross for cross in self.crosses_of(metric) if self.is_asked(cross, epoch)]
        if not asked and not crosses:
            return
        if metric["accumulate"] != "first":
            value = self.kept(metric, value)
            if value is not None:
                before = self.gathered.get(which)
                self.gathered[which] = value if before is None else combined(metric, before, value)
            return
        if crosses:
            self.gathered.setdefault(which, {"category": self.category(metric, value)})
        if asked and which not in self.reports:
            self.report(metric, value, epoch)
            self.count("made")

    def kept(self, metric, value):
        if metric["encoding"]["form"] != "set":
            return value
        items, cohort = metric["encoding"]["items"], self.cohort(metric)
        asked = {items[(cohort + i) % len(items)] for i in range(metric["encoding"]["items_per_report"])}
        found = sorted(asked.intersection(value.get("texts") or [value["text"]]))
        return {"texts": found} if found else None

    # --- messages -------------------------------------------------------------------------------------------------

    def seal(self, every, epoch, build):
        registry = self.running["registry"]
        segment = {key: known(build.get(key), values) for key, values in registry["segments"]["values"].items()}
        place = registry["segments"]["combinations"].index(segment)
        table = body = b""
        asked = self.asked_in(every, epoch)
        for metric in asked:
            which = metric["metric_hash"], epoch
            if which not in self.reports:
                value, recorded = self.answer_of(metric, epoch)
                self.report(metric, value, epoch)
                self.count("made")
                self.count("absent", int(not recorded))
            _, cohort, bits = self.reports[which]
            table += bytes.fromhex(metric["hashes"][place])[:8] + epoch.to_bytes(4, "little") + b"\1\0\0\0"
            body += cohort.to_bytes(1 if metric["num_cohorts"] <= 256 else 2, "little") + bits
        self.epochs[every, epoch] = True, build
        self.reports = {w: row for w, row in self.reports.items() if (row[0], w[1]) != (every, epoch)}
        of_cadence = {m["metric_hash"] for m in registry["metrics"] if m["every"] == every}
        self.gathered = {w: v for w, v in self.gathered.items() if w[1] != epoch or w[0] not in of_cadence}
        if not asked:
            return
        batch_id, end = self.new_id(every, epoch, 0), start_of(every, epoch + 1)
        window = min(end - start_of(every, epoch), DAY)
        self.outbox.append(
            {
                "id": batch_id,
                "every": every,
                "epoch": epoch,
                "reports": len(asked),
                "body": sealed(batch_id, len(asked), table + body),
                "attempts": 0,
                "not_before": end + window * self.moment("delay", every, epoch, 0),
            }
        )

    def send(self):
        self.drop_old()
        if self.retry_at > self.now + DAY + 2 * HOUR:
            self.retry_at = 0
        if not self.outbox or self.departures()[0] > self.now:
            return
        message = self.outbox[0]
        answer = self.network.pop(0) if self.network else STORED
        self.messages.append({"at": self.now, "body": message["body"].hex(), "answer": answer})
        verdict, reason, retry_after, server_time = judged(answer, message["id"].hex())
        if verdict == "failed":
            return self.back_off(message, retry_after)
        self.failures = self.retry_at = 0
        if verdict == "later":
            return self.ask_later(message, reason, server_time)
        self.outbox.remove(message)
        self.count("sent" if verdict == "delivered" else f"dropped_{reason}", message["reports"])

    def back_off(self, message, retry_after):
        self.failures += 1
        pause = max(min(retry_after, DAY), min(6 * HOUR, 30 * 2 ** (self.failures - 1)))
        part = self.moment("pause", message["every"], message["epoch"], self.failures)
        self.retry_at = full_hour_after(self.now + pause) + HOUR * part

    def ask_later(self, message, reason, server_time):
        message["attempts"] += 1
        wait = DAY
        if reason == "epoch-in-future" and server_time is not None:
            wait = min(DAY, max(HOUR, start_of(message["every"], message["epoch"] + 1) - server_time))
        part = self.moment("later", message["every"], message["epoch"], message["attempts"])
        message["not_before"] = max(message["not_before"], full_hour_after(self.now + wait) + HOUR * part)
        if reason == "metric-unknown":
            message["id"] = self.new_id(message["every"], message["epoch"], message["attempts"])
            body = message["body"]
            message["body"] = sealed(message["id"], int.from_bytes(body[6:8], "little"), body[32:])

    # --- what can be seen -----------------------------------------------------------------------------------------

    def status(self):
        return {
            "mode": self.running["mode"],
            "reason": self.running["reason"],
            "spent": self.spent(),
            "set_aside": self.set_aside(),
            "waiting": [[m["every"], m["epoch"], m["not_before"]] for m in self.outbox if self.departures()],
            "counts": {k: n for k, n in self.counts.items() if n and (k in COUNTED or k.startswith("dropped_"))},
        }
