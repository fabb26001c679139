"""`python -m tests.fuzz.fuzz N [--seed S]`: N damaged spec files through `check`, in two processes.

Damage is a flipped byte, a value of another type, a deleted stretch or line, a line elsewhere, or several of these.
Every file must end in findings or a proof within two seconds: no exception and no hang.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[2]
SOURCES = sorted(p for d in ("specs", "tests/language") for e in ("yaml", "toml") for p in (ROOT / d).glob(f"*.{e}"))
LIMIT = 2.0  # seconds of one file
HANG = 20  # seconds after which a check is interrupted
VALUES = (
    "0", "1", "-1", "2147483648", "9" * 25, "1.5", "1.0e-3", "1e-3", ".inf", ".nan", "true", "yes", "null", "~", "",
    "[]", "{}", "[1, 2]", "[[]]", "{a: 1}", "text", '"text"', "'*'", "*x", "&x 1", "!!int 3", "|", "x[i]", "a.b()",
    "x if y else z", "acc.c[:, 0:+64]", "((((", "1/0", "10**10**10", "k", "sm_90a", "f16",
)  # fmt: skip
_VALUE = re.compile(rb"(?<=[:=,\[{] )[^,\]}{\[#\n]+")


@dataclass(frozen=True)
class Outcome:
    name: str
    seconds: float
    ok: bool
    problem: str  # empty, or why this is a failure


class TooLong(Exception):
    """The alarm of a check that hangs."""


def flip(data: bytearray, r: random.Random) -> None:
    """One bit, or one byte, of the file."""
    at = r.randrange(len(data))
    data[at] = data[at] ^ (1 << r.randrange(8)) if r.random() < 0.6 else r.randrange(256)


def retype(data: bytearray, r: random.Random) -> None:
    """A value of another type."""
    found = list(_VALUE.finditer(data))
    if found:
        m = r.choice(found)
        data[m.start() : m.end()] = r.choice(VALUES).encode()


def delete(data: bytearray, r: random.Random) -> None:
    """A stretch of up to 40 bytes."""
    at = r.randrange(len(data))
    del data[at : at + r.randrange(1, 40)]


def _lines(data: bytearray) -> list[bytes]:
    return bytes(data).split(b"\n")


def delete_line(data: bytearray, r: random.Random) -> None:
    lines = _lines(data)
    del lines[r.randrange(len(lines))]
    data[:] = b"\n".join(lines)


def move_line(data: bytearray, r: random.Random) -> None:
    lines = _lines(data)
    line = lines.pop(r.randrange(len(lines)))
    lines.insert(r.randrange(len(lines) + 1), line)
    data[:] = b"\n".join(lines)


def repeat_line(data: bytearray, r: random.Random) -> None:
    lines = _lines(data)
    at = r.randrange(len(lines))
    lines[at:at] = [lines[at]] * r.choice((1, 1, 2, 30))
    data[:] = b"\n".join(lines)


def swap_values(data: bytearray, r: random.Random) -> None:
    """Two values of the file change places."""
    found = list(_VALUE.finditer(data))
    if len(found) > 1:
        a, b = sorted(r.sample(found, 2), key=lambda m: m.start())
        data[b.start() : b.end()], data[a.start() : a.end()] = a[0], b[0]


def renumber(data: bytearray, r: random.Random) -> None:
    """Another integer for one."""
    found = list(re.finditer(rb"(?<![\w.])\d+(?![\w.])", data))
    if found:
        m = r.choice(found)
        data[m.start() : m.end()] = str(r.choice((0, 1, 2, 3, 5, 7, 8, 16, 31, 64, 100, 1024, 65537, 10**9))).encode()


def move_step(data: bytearray, r: random.Random) -> None:
    """A step or block of a schedule elsewhere, or twice, at the same depth: the file stays readable."""
    lines = _lines(data)
    steps = [i for i, line in enumerate(lines) if re.match(rb"\s+- \w[^{]*$", line)]
    if len(steps) < 2:
        return
    at = r.choice(steps)
    depth = len(lines[at]) - len(lines[at].lstrip())
    same = [i for i in steps if len(lines[i]) - len(lines[i].lstrip()) == depth]
    line = lines[at] if r.random() < 0.4 else lines.pop(at)
    lines.insert(r.choice(same), line)
    data[:] = b"\n".join(lines)


DAMAGE: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip,
    retype,
    retype,
    delete,
    delete_line,
    move_line,
    repeat_line,
    swap_values,
    renumber,
    renumber,
    move_step,
    move_step,
)


def damaged(number: int) -> tuple[str, bytes]:
    """The damaged file of a number: the same in every run."""
    r = random.Random(number)
    source = r.choice(SOURCES)
    data = bytearray(source.read_bytes())
    for _ in range(r.choice((1, 1, 1, 2, 3, 6))):
        if data:
            r.choice(DAMAGE)(data, r)
    return source.name, bytes(data)


def try_one(number: int) -> Outcome:
    """Checks one damaged file."""
    from tests.support.checking import check_text

    name, data = damaged(number)
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(HANG)
    start = time.perf_counter()
    ok, problem = False, ""
    try:
        ok = check_text(data, Path(name).suffix).ok
    except TooLong:
        problem = "hangs"
    except Exception:
        problem = traceback.format_exc(limit=-3)
    finally:
        signal.alarm(0)
    seconds = time.perf_counter() - start
    if not problem and seconds > LIMIT:
        problem = f"takes {seconds:.1f} s"
    return Outcome(f"{name} #{number}", seconds, ok, problem)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TooLong


def run(count: int, seed: int, jobs: int = 2) -> Iterator[Outcome]:
    numbers = range(seed, seed + count)
    if jobs == 1:
        yield from map(try_one, numbers)
        return
    with Pool(jobs) as pool:
        yield from pool.imap_unordered(try_one, numbers, chunksize=20)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--slow", action="store_true", help="list the slowest")
    args = parser.parse_args()
    outcomes = list(run(args.count, args.seed, args.jobs))
    times = sorted(o.seconds for o in outcomes)
    problems = [o for o in outcomes if o.problem]
    for o in problems[:20]:
        print(f"{o.name}: {o.problem.rstrip()}")
    for o in sorted(outcomes, key=lambda o: -o.seconds)[:5] if args.slow else ():
        print(f"{o.name}: {o.seconds:.2f} s")
    kinds = Counter(o.problem.rstrip().rsplit("\n", 1)[-1][:100] for o in problems)
    for kind, n in kinds.most_common():
        print(f"{n:6}  {kind}")
    print(
        f"{len(outcomes)} files from {len(SOURCES)} specs, {sum(o.ok for o in outcomes)} still good, "
        f"{len(problems)} problems; median {times[len(times) // 2] * 1000:.0f} ms, slowest {times[-1]:.2f} s"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
