"""The log gives back what was synced, cuts what a crash left, and refuses what was damaged, naming the place."""

import errno
import zlib
from random import Random

import pytest

from hubbub.collector.storage import log as log_module
from hubbub.collector.storage.log import START, Damaged, DiskFull, Log, Position, Replay, Salvage, segments
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.wire import pack
from tests.collector.kit import REGISTRY, random_batch

NOW = 1_795_000_000.0


def messages(count, seed=1):
    random = Random(seed)
    return [pack(random_batch(random, list(REGISTRY), NOW)) for _ in range(count)]


def write(folder, groups, segment=1, segment_bytes=1 << 20):
    log = Log(folder, segment, segment_bytes)
    ends = []
    for group in groups:
        log.append(group)
        log.sync()
        ends.append(log.position)
    log.close()
    return ends


def read(folder, start=START, cut=True):
    return [message for group in Replay(folder, start, cut) for message in group.messages]


def test_what_was_appended_is_read_back_over_many_segments(tmp_path):
    sent = messages(60)
    ends = write(tmp_path, [sent[i : i + 3] for i in range(0, 60, 3)], segment_bytes=4096)
    assert len(segments(tmp_path)) > 3
    assert read(tmp_path) == sent
    assert read(tmp_path, ends[9]) == sent[30:]


def test_a_large_group_grows_the_file_and_a_small_one_follows(tmp_path):
    sent = messages(600)
    write(tmp_path, [sent[:500], sent[500:501], sent[501:]])
    assert read(tmp_path) == sent


@pytest.mark.parametrize("keep", [0, 1, 11, 12, 13, 40, 200])
def test_a_torn_tail_is_cut_and_stays_cut(tmp_path, keep):
    sent = messages(9)
    ends = write(tmp_path, [sent[:3], sent[3:6], sent[6:]])
    ((_, path),) = segments(tmp_path)
    data = path.read_bytes()
    torn = data[: ends[1].offset + keep].ljust(len(data), b"\0")
    path.write_bytes(torn)
    assert read(tmp_path, cut=False) == sent[:6]
    assert path.read_bytes() == torn, "who only looks changes nothing"
    assert read(tmp_path) == sent[:6]
    assert read(tmp_path) == sent[:6]
    assert path.read_bytes()[ends[1].offset :].strip(b"\0") == b""


def test_damage_before_a_later_group_is_an_error_with_file_and_offset(tmp_path):
    sent = messages(9)
    ends = write(tmp_path, [sent[:3], sent[3:6], sent[6:]])
    ((_, path),) = segments(tmp_path)
    for at in (ends[0].offset, ends[0].offset + 5, ends[0].offset + 100):
        data = bytearray(path.read_bytes())
        data[at] ^= 4
        broken = tmp_path / f"broken-{at}"
        broken.mkdir()
        (broken / path.name).write_bytes(data)
        with pytest.raises(Damaged, match=rf"0000000001.log: offset {ends[0].offset}: damaged, though it had been"):
            read(broken)


def test_damage_in_an_earlier_segment_is_an_error(tmp_path):
    sent = messages(6)
    write(tmp_path, [sent[:3]])
    write(tmp_path, [sent[3:]], segment=2)
    (_, first), _ = segments(tmp_path)
    data = first.read_bytes()
    first.write_bytes(data[:100] + b"?" + data[101:])
    with pytest.raises(Damaged, match=r"0000000001\.log: offset 36: damaged"):
        read(tmp_path)


@pytest.mark.parametrize("salt", [None, bytes(8)], ids=["no salt", "a salt of zeros"])
def test_a_message_cannot_pretend_to_be_a_group(tmp_path, salt):
    """Group headers in a sender's bytes do not have the segment's salt: an incomplete last record is still one."""
    (good,) = messages(1)
    start = b"HUBG" + (100).to_bytes(4, "little")
    crc = zlib.crc32(start) if salt is None else zlib.crc32(start, zlib.crc32(salt))
    forged = start + crc.to_bytes(4, "little")
    ends = write(tmp_path, [[good]])
    ((_, path),) = segments(tmp_path)
    data = bytearray(path.read_bytes())
    data[ends[0].offset + 50 : ends[0].offset + 50 + len(forged)] = forged
    path.write_bytes(data)
    assert read(tmp_path) == [good]


def test_a_write_for_which_there_was_no_room_leaves_nothing_behind(tmp_path, monkeypatch):
    first, second, third = messages(3)
    log = Log(tmp_path, 1, 1 << 20)
    log.append([first])
    log.sync()
    end, write_all = log.position, log_module._write

    def half(file, data, at):
        write_all(file, data[: len(data) // 2], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(log_module, "_write", half)
        with pytest.raises(DiskFull, match="No space left"):
            log.append([second])
    assert log.position == end
    ((_, path),) = segments(tmp_path)
    assert path.read_bytes()[end.offset :].strip(b"\0") == b""
    log.append([third])
    log.sync()
    log.close()
    assert read(tmp_path) == [first, third]


def test_a_missing_segment_is_an_error(tmp_path):
    sent = messages(9)
    for number in range(3):
        write(tmp_path, [sent[3 * number : 3 * number + 3]], segment=number + 1)
    (tmp_path / "0000000002.log").unlink()
    with pytest.raises(Damaged, match=r"segment 0000000002\.log must be there, between its neighbours"):
        read(tmp_path)
    with pytest.raises(Damaged, match=r"segment 0000000002\.log must be there, the checkpoint ends in it"):
        read(tmp_path, Position(2, 100))


def test_a_crash_while_a_segment_is_made_leaves_nothing_behind(tmp_path):
    sent = messages(3)
    write(tmp_path, [sent])
    (tmp_path / "0000000002.log").write_bytes(b"HUBB")
    assert read(tmp_path) == sent
    assert [number for number, _ in segments(tmp_path)] == [1]


def test_dropping_deletes_only_what_lies_before_the_position(tmp_path):
    sent = messages(30)
    log = Log(tmp_path, 1, 4096)
    for message in sent:
        log.append([message])
    log.sync()
    log.drop_before(log.position)
    assert [number for number, _ in segments(tmp_path)] == [log.position.segment]
    log.close()


@pytest.mark.parametrize("size", [36, 200])
@pytest.mark.parametrize("number", [1, 2])
def test_a_segment_of_another_version_is_refused_with_both_versions_and_left_alone(tmp_path, number, size):
    """It is neither damaged nor torn: also where it is the last, and only a header, it is not removed."""
    sent = messages(6)
    write(tmp_path, [sent[:3]])
    write(tmp_path, [sent[3:]], segment=2)
    path = dict(segments(tmp_path))[number]
    path.write_bytes(b"HUBBLOG3" + path.read_bytes()[8:size])
    with pytest.raises(Invalid) as caught:
        read(tmp_path)
    assert caught.value.problems == (
        f"{path}: log version must be 2, the one this hubbub reads, got 3; run the hubbub that wrote the directory, or "
        "export its tallies with that one (`hubbub export --data`) and give this one a new directory",
    )
    assert path.stat().st_size == size


def test_of_a_damaged_group_all_whole_batches_are_saved_and_what_is_lost_is_said(tmp_path):
    sent = messages(9)
    ends = write(tmp_path, [sent[:3], sent[3:6], sent[6:]])
    ((_, path),) = segments(tmp_path)
    data = bytearray(path.read_bytes())
    data[ends[0].offset + 12 + len(sent[3]) + 40] ^= 1  # in the second batch of the second group
    path.write_bytes(data)
    salvage = Salvage(tmp_path, START, needed=True)
    assert list(salvage) == [*sent[:4], *sent[5:]]
    (lost,) = salvage.lost
    assert lost.endswith("of which 2 whole batches were saved")
