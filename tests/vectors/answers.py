"""docs/client-contract.md, sections 6 and 7: kept answers and histories. The half of an install that draws."""

from crosses import category
from drawing import random_bytes
from keyed import Stream, crossed, keyed, numbers_for, positions_of
from rules import flags_at, question, weights_of
from wire import mask


class Answers:
    """What an install says; `install.py` has the rest of it."""

    def answer_of(self, metric, epoch):
        """Of what was gathered, and whether there was anything; otherwise of silence."""
        if metric["encoding"]["form"] == "cross":
            return self.cell_of(metric, epoch)
        kept = None if metric["accumulate"] == "first" else self.gathered.get((metric["metric_hash"], epoch))
        value = metric["silence"] if kept is None else kept
        return value, value is not None

    def crosses_of(self, metric):
        crosses = [each for each in self.running["registry"]["metrics"] if each["encoding"]["form"] == "cross"]
        return [cross for cross in crosses if metric["name"] in cross["encoding"]["of"]]

    def cell_of(self, cross, epoch):
        metrics = {metric["name"]: metric for metric in self.running["registry"]["metrics"]}
        found, recorded = [], False
        for factor in (metrics[name] for name in cross["encoding"]["of"]):
            kept = self.gathered.get((factor["metric_hash"], epoch))
            recorded = recorded or kept is not None
            known = kept is not None and "category" in kept
            found.append(kept["category"] if known else self.category(factor, kept))
        return {"cell": found[0] * cross["encoding"]["categories"][1] + found[1]}, recorded

    def category(self, metric, value):
        factor = {**question(metric), "accumulate": metric["accumulate"]}
        return category(factor, value, self.dither(metric), mask)

    def dither(self, metric):
        if metric["encoding"]["form"] != "mean":
            return 0
        dither = int.from_bytes(keyed(self.who[0], b"dither", metric["metric_hash"].encode(), 8), "little")
        self.by_key([str(dither)], draw="dither", metric=metric["name"])
        return dither

    def encode(self, metric, value):
        if metric["encoding"]["form"] == "cross":
            return 1 << value["cell"], False
        return mask(question(metric), value, self.cohort(metric), self.dither(metric))

    def report(self, metric, value, epoch):
        sent, clamped = self.encode(metric, value)
        bits = self.said(metric, sent, epoch) if "history" in metric["noise"] else self.noised(metric, sent, epoch)
        self.reports[metric["metric_hash"], epoch] = metric["every"], self.cohort(metric), self.vector(metric, bits)
        self.count("clamped", int(clamped))

    def noised(self, metric, sent, epoch):
        channel, width = metric["noise"]["instantaneous"], self.width(metric)
        label = f"{self.label} bits {metric['name']} {epoch}"
        memo = self.memo_of(metric, sent)
        numbers = numbers_for(channel, width, lambda size: random_bytes(label, size))
        self.note(self.draws, numbers, draw="bits", metric=metric["name"], epoch=epoch)
        return crossed(channel, memo, width, numbers)

    def memo_of(self, metric, sent):
        everywhere = (1 << self.width(metric)) - 1
        if not metric["keeps_by_bit"]:
            parts = [(sent, everywhere)]
        else:
            parts = [(drawn_for, at) for drawn_for, at in ((everywhere, sent), (0, everywhere & ~sent)) if at]
        memo, overflowed = 0, False
        for drawn_for, at in parts:
            bits, old = self.kept_or_drawn(metric, drawn_for)
            memo, overflowed = memo | bits & at, overflowed or old
        self.count("overflowed", int(overflowed))
        return memo

    def kept_or_drawn(self, metric, sent):
        """The memo of a mask, and whether it is another's."""
        name, what = metric["metric_hash"], self.vector(metric, sent)
        mine = [fingerprint for owner, fingerprint in self.memos if owner == name]
        fingerprint = keyed(self.who[0], b"memo", b"%s %d %s" % (name.encode(), self.cohort(metric), what))
        if fingerprint in mine:
            return self.memos[name, fingerprint], False
        slots = min(metric["max_values"], self.ledger[name]["slots"])
        if len(mine) < slots:
            stream, channel = Stream(self.who[0], fingerprint + what), metric["noise"]["permanent"]
            numbers = numbers_for(channel, self.width(metric), stream.take)
            self.by_key(numbers, draw="memo", metric=metric["name"], mask=what.hex())
            self.memos[name, fingerprint] = crossed(channel, sent, self.width(metric), numbers)
            return self.memos[name, fingerprint], False
        slot = int.from_bytes(keyed(self.who[0], b"overflow", fingerprint), "little") % len(mine)
        self.by_key([slot], draw="overflow", metric=metric["name"], mask=what.hex())
        return self.memos[name, mine[slot]], True

    # --- histories ------------------------------------------------------------------------------------------------

    def turn_number(self, metric, epoch):
        hold, began = metric["noise"]["history"]["hold"], self.ledger[metric["metric_hash"]]["asked_in"]
        return epoch // hold - began // hold

    def has_turn(self, metric, epoch):
        law, name = metric["noise"]["history"], metric["metric_hash"]
        first = self.ledger[name]["asked_in"] // law["hold"]
        for period in range(first, first + law["answers"]):
            turn = Stream(self.who[0], b"turn %s %d" % (name.encode(), period)).below(law["hold"])
            self.by_key([turn], draw="turn", metric=metric["name"], period=period)
            if epoch == period * law["hold"] + turn:
                return True
        return False

    def flags(self, metric):
        law, name = metric["noise"]["history"], metric["metric_hash"]
        began = self.ledger[name]["asked_in"] // law["hold"]
        fingerprint = keyed(self.who[0], b"flags", b"%s %d" % (name.encode(), began))
        if (name, fingerprint) not in self.memos:
            stream = Stream(self.who[0], b"flags" + fingerprint)
            number = int.from_bytes(stream.take(3), "little")
            weights = weights_of(law)
            side = weights[law["threshold"] :] if number < law["above"] else weights[: law["threshold"]]
            first = law["threshold"] if number < law["above"] else 0
            rank = stream.below(sum(side))
            self.by_key([number, str(rank)], draw="flags", metric=metric["name"])
            self.memos[name, fingerprint] = flags_at(law, side, first, rank)
        return self.memos[name, fingerprint]

    def said(self, metric, sent, epoch):
        law, name, width = metric["noise"]["history"], metric["metric_hash"], self.width(metric)
        per = law["flags_per_answer"]
        flags = self.flags(metric) >> self.turn_number(metric, epoch) * per & (1 << per) - 1
        what = b"said %s %d %d " % (name.encode(), epoch, self.cohort(metric))
        stream = Stream(self.who[0], what + self.vector(metric, sent))
        if law["sort"] == "bits":
            return (sent ^ ~flags) & (1 << width) - 1
        if law["sort"] == "category":
            (other,) = self.by_key([stream.below(width - 1)], draw="said", metric=metric["name"], epoch=epoch)
            return sent if flags else 1 << other + (other >= sent.bit_length() - 1)
        numbers = positions_of(stream.take(24 * -(-width // 8)), width)
        self.by_key(numbers, draw="said", metric=metric["name"], epoch=epoch)
        even = {"sort": "bits", "when_one": law["chance"], "when_zero": law["chance"]}
        return crossed(even, 0, width, numbers) & ~sent | (sent if flags else 0)
