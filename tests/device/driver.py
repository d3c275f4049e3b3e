"""driver.c for the client in plain Python, which is `psofed` here, not the package."""

import binascii
import struct

import config

import psofed

me = psofed.MicroClient(config)


def number(word):
    return struct.unpack("<f", int(word, 16).to_bytes(4, "little"))[0]


def shown(v):
    return f"{int.from_bytes(struct.pack('<f', v), 'little'):08x}"


def say(line):
    """The answer to one line."""
    global me
    command, *words = line.split()
    if command == "l":
        *x, y = [number(word) for word in words]
        return str(me.learn(x, y))
    if command == "p":
        return shown(me.predict([number(word) for word in words]))
    if command == "r":
        return str(me.receive(binascii.unhexlify(words[1]) if words[1:] else b""))
    if command == "u":
        return " ".join(psofed.hexed(frame) for frame in me.upload())
    if command == "h":
        return psofed.hexed(me.hello())
    if command == "w":
        return " ".join(shown(v) for v in me.w)
    if command == "s":
        return str(me.save(words[0]))
    me = psofed.MicroClient(config)
    return str(me.load(words[0]))
