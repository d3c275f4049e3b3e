"""A client of PSO-Fed or Online-Fed for MicroPython: psofed.h, function by function.

import config, psofed      what this client needs to know, and this file under that name

me = psofed.MicroClient(config)
me.load("/flash")
y = me.predict(x)
me.learn(x, y)             eq. (10), if the sample passes the check
me.receive(frame)          eq. (9), with the last frame of a window
frames = me.upload()       what travels in eq. (11)
me.save("/flash")          before they leave
"""

# No annotations of the future, no dataclasses: what MicroPython does not have.
import binascii
import json
import math
import struct
from array import array

HEAD, FRESH = 4, 0x80
LEARNED, CLIPPED, EARLY, BROKEN, OUTSIDE, FAR, STUCK = range(7)  # verdicts on samples
MORE, OPEN, AGAIN, SIZE, LATE, VALUE = 0, 1, 2, -1, -2, -3  # and on frames
BIGGEST = 3.4028235e38


class MicroClient:
    """What a device knows and does; psofed.h says more."""

    def __init__(self, config: object) -> None:
        self.config = config
        self.room = (config.FRAME - HEAD) // config.WIRE * config.WIRE
        self.last = -1  # the last round that was answered
        self.begin()

    def begin(self) -> None:
        """Before the first sample: w_{k,0} = 0."""
        config = self.config
        self.w = array("f", [0.0] * config.DIM)
        self.values = array("f", [0.0] * config.SHARED)
        self.round, self.since, self.come = -1, 0, {}
        self.fresh = self.open = self.answered = self.again = self.judged = 0
        self.counts, self.told, self.signs = [0] * 7, [0, 0], b""
        self.label, self.errors, self.sample = 0.0, [], []
        self.memory = [[0.0] * 3, [0.0] * 3]

    def features(self, x: list) -> list:
        """Eq. (2)."""
        config, scale = self.config, math.sqrt(2 / self.config.DIM)
        found = []
        for slope, t in zip(config.SLOPE, config.OFFSET):
            for a, b in zip(x, slope):
                t += a * b
            found.append(scale * math.cos(2 * math.pi * t))
        return found

    def own(self, z: list) -> float:
        """w^T z."""
        return sum(a * b for a, b in zip(self.w, z))

    def predict(self, x: list) -> float:
        """What the client says of x."""
        own = self.own(self.features(x))
        if not (self.config.MIX and self.counts[LEARNED] + self.counts[CLIPPED]):
            return own
        a = self.weight()
        return a * own + (1 - a) * self.label

    def learn(self, x: list, y: float) -> int:
        """Eq. (10): w <- w + mu z epsilon. Returns the verdict on the sample."""
        config = self.config
        self.since += 1
        verdict = BROKEN
        if all(-BIGGEST <= v <= BIGGEST for v in list(x) + [y]):
            z = self.features(x)
            own = self.own(z)
            verdict, error = self.judge(x, y, y - own)
        if verdict <= CLIPPED:
            y = own + error if verdict == CLIPPED else y
            if config.MIX and self.counts[LEARNED] + self.counts[CLIPPED]:
                self.compare(own, y)
            step = config.STEP * error
            if config.NORMALISED:
                step /= config.EPSILON + sum(v * v for v in z)
            for d, v in enumerate(z):
                self.w[d] += step * v
            self.label = y
        self.counts[verdict] += 1
        return verdict

    def judge(self, x: list, y: float, error: float) -> tuple:
        """The verdict, and what is learned of the error."""
        config = self.config
        if config.CHECK == 2:
            sample = list(x) + [y]
            self.again = self.again + 1 if self.sample == sample else 1
            self.sample = sample
        if config.CHECK and not config.LOW <= y <= config.HIGH:
            return OUTSIDE, error
        if config.CHECK < 2:
            return LEARNED, error
        if self.again > config.REPEATS:
            return STUCK, error
        if not abs(error) <= BIGGEST:
            return LEARNED, error
        self.errors = (self.errors + [abs(error)])[-config.WINDOW :]
        self.judged += 1
        limit = config.FACTOR * sorted(self.errors)[(len(self.errors) - 1) // 2]
        if self.judged < 3:
            return EARLY, error
        if abs(error) <= limit:
            return LEARNED, error
        return (CLIPPED, math.copysign(limit, error)) if config.CLIP else (FAR, error)

    def weight(self) -> float:
        """That of w_k in the mix; the rest is that of the last label."""
        (own, _), (last, _) = rate(self.memory[0]), rate(self.memory[1])
        own, last = own or last, last or own
        if not own:
            return 0.5
        power = last * self.memory[1][0] - own * self.memory[0][0]
        return 1 / (1 + last / own * math.exp(min(max(power, -80), 80)))

    def compare(self, own: float, y: float) -> None:
        """A label that the models had guessed."""
        a = self.weight()
        mixed = a * own + (1 - a) * self.label
        for memory, guess in zip(self.memory, (own, self.label)):
            r = 2 * (mixed - y) * (mixed - guess)
            memory[1] += r * r
            memory[2] = max(memory[2], abs(r))
            eta, bound = rate(memory)
            memory[0] += 0.5 * (r - eta * r * r + (bound if eta * r > 0.5 else 0))

    def entries(self, t: int) -> list:
        """The window of exchange t."""
        config = self.config
        return [(j + config.SHIFT * t) % config.DIM for j in config.FIRST]

    def receive(self, frame: bytes) -> int:
        """A frame that has come down; if it is refused, nothing has changed."""
        config = self.config
        if len(frame) < HEAD:
            return SIZE
        n, fresh, part = int.from_bytes(frame[1:4], "little"), frame[0] >> 7, frame[0] & 0x7F
        whole = fresh and config.IDLE
        size = (config.DIM if whole else config.SHARED) * config.WIRE
        here = min(size - part * self.room, self.room)
        if here <= 0 or n % config.PACE or len(frame) != HEAD + here:
            return SIZE
        if n < self.last or (n == self.last and not self.answered):
            return LATE
        if n == self.last:
            return AGAIN
        values = [get(frame[at : at + config.WIRE]) for at in range(HEAD, len(frame), config.WIRE)]
        if not all(-config.BOUND <= v <= config.BOUND for v in values):
            return VALUE
        if n != self.round or fresh != self.fresh or self.answered:
            if fresh:
                self.begin()
            self.round, self.fresh, self.come, self.open, self.answered = n, fresh, {}, 0, 0
        if self.open:
            return OPEN
        self.come[part] = values
        if len(self.come) * self.room < size:
            return MORE
        found = [v for i in range(len(self.come)) for v in self.come[i]]
        for d, v in zip(range(config.DIM) if whole else self.entries(n // config.PACE), found):
            self.w[d] = v  # eq. (9)
        self.open, self.since, self.come = 1, 0, {}
        return OPEN

    def due(self) -> bool:
        """Whether an answer is due."""
        return bool(self.open and not self.answered and self.since >= self.config.WAIT)

    def upload(self) -> list:
        """The frames of the answer; of one that has been given, the same again."""
        config = self.config
        if not self.open:
            return []
        if not self.answered:
            window = self.entries(self.round // config.PACE + 1)
            self.values = array("f", [self.w[d] for d in window])
            self.signs = self.report() if config.SIGNS else b""
        self.answered, self.last = 1, self.round
        body = b"".join(put(v, config.WIRE) for v in self.values) + self.signs
        head = self.round.to_bytes(3, "little")
        return [bytes([at // self.room]) + head + body[at : at + self.room]
                for at in range(0, len(body), self.room)]  # fmt: skip

    def report(self) -> bytes:
        """The signs: samples learned, and others, since the last answer."""
        learned = self.counts[LEARNED] + self.counts[CLIPPED]
        others = sum(self.counts[CLIPPED:]) - self.counts[EARLY]
        codes = []
        for i, (count, digits, most) in enumerate(((learned, 4, 255), (others, 2, 31))):
            count, shift = count - self.told[i], 0
            while count >> shift >= 2 << digits:
                shift += 1
            code = min((shift << digits) + (count >> shift), most)
            shift = max((code >> digits) - 1, 0)
            self.told[i] += (code - (shift << digits)) << shift
            codes.append(code)
        return bytes([codes[0], codes[1] << 3])

    def hello(self) -> bytes:
        """What a client says when it begins."""
        head = bytes([FRESH]) + (self.last + 1).to_bytes(3, "little")
        return head + self.config.DIGEST.to_bytes(4, "little")

    def save(self, folder: str) -> None:
        """Into the older of two files: a power cut at any byte leaves one of them whole."""
        number = max(saved(folder, slot, self.config.DIGEST)[0] for slot in (0, 1)) + 1
        more = [self.label] + self.memory[0] + self.memory[1] + self.sample
        arrays = [self.signs, self.w, self.values, array("d", more), array("d", self.errors)]
        integers = [self.round, self.last, self.since, self.fresh, self.open, self.answered,
                    self.again, self.judged]  # fmt: skip
        state = [integers, self.counts, self.told, [hexed(data) for data in arrays]]
        text = json.dumps([self.config.DIGEST, number, state])
        with open(f"{folder}/psofed.{number % 2}", "w") as file:
            file.write(f"{binascii.crc32(text.encode()):08x}{text}")

    def load(self, folder: str) -> int:
        """The newer of the two files that are whole; returns its number, 0 if there is none."""
        number, state = max(saved(folder, slot, self.config.DIGEST) for slot in (0, 1))
        self.last = -1
        self.begin()
        if not number:
            return 0
        integers, self.counts, self.told, texts = state
        self.round, self.last, self.since, self.fresh = integers[:4]
        self.open, self.answered, self.again, self.judged = integers[4:]
        self.signs, *arrays = [binascii.unhexlify(text) for text in texts]
        self.w, self.values = array("f", arrays[0]), array("f", arrays[1])
        more, self.errors = list(array("d", arrays[2])), list(array("d", arrays[3]))
        self.label, self.memory, self.sample = more[0], [more[1:4], more[4:7]], more[7:]
        if not self.open:  # parts of a window are not kept
            self.round = -1
        return number


def saved(folder: str, slot: int, digest: int) -> tuple:
    """The number of a save and what is in it, if it is whole and of this configuration."""
    try:
        with open(f"{folder}/psofed.{slot}") as file:
            text = file.read()
        if int(text[:8], 16) == binascii.crc32(text[8:].encode()):
            found, number, state = json.loads(text[8:])
            return (number, state) if found == digest else (0, [])
    except (OSError, ValueError):
        pass
    return 0, []


def hexed(data: bytes) -> str:
    """Bytes as text."""
    return binascii.hexlify(data).decode()


def rate(memory: list) -> tuple:
    """eta of one of the two models, and its B: see psofed.h."""
    if not memory[2] > 0:
        return 0.0, 0.0
    part, power = math.frexp(memory[2])
    bound = math.ldexp(1.0, power - (part == 0.5))  # the next power of two
    return min(math.sqrt(math.log(2) / memory[1]), 1 / bound), bound


def put(v: float, wire: int) -> bytes:
    """A value as it travels, in 2 or 4 bytes; no struct of MicroPython is relied on for 2."""
    data = struct.pack("<f", v)
    if wire == 4:
        return data
    bits = int.from_bytes(data, "little")
    sign, rest, shift = bits >> 16 & 0x8000, bits & 0x7FFFFFFF, 13
    if rest >= 0x47800000:  # 2^16 and more, and what is not finite
        return (sign | (0x7E00 if rest > 0x7F800000 else 0x7C00)).to_bytes(2, "little")
    if rest < 0x38800000:  # below 2^-14 there is no leading one
        shift = 126 - (rest >> 23)
        rest = (rest & 0x7FFFFF) | 0x800000 if shift <= 24 else 0
        shift = min(shift, 24)
    else:
        rest -= 0x38000000
    odd = rest >> shift & 1  # to the nearest, of two to the even one
    return (sign | (rest + (1 << (shift - 1)) - 1 + odd) >> shift).to_bytes(2, "little")


def get(data: bytes) -> float:
    """The value."""
    if len(data) == 4:
        return struct.unpack("<f", data)[0]
    bits = int.from_bytes(data, "little")
    rest = bits & 0x7FFF
    if rest < 0x400:
        size = rest * 2.0**-24
    elif rest < 0x7C00:
        size = (1024 + (rest & 0x3FF)) * 2.0 ** ((rest >> 10) - 25)
    else:
        size = float("inf")  # or not a number: both are refused
    return -size if bits & 0x8000 else size
