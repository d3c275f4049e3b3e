"""A stranger at a broker: packets of MQTT by hand, as fast or as large as one likes."""

import socket
import struct


def packet(kind, body):
    """One MQTT packet: its first byte, the length of the rest, the rest."""
    return bytes([kind]) + length(len(body)) + body


def length(size):
    found = b""
    while True:
        size, digit = divmod(size, 128)
        found += bytes([digit | (128 if size else 0)])
        if not size:
            return found


def text(words):
    return struct.pack(">H", len(words)) + words.encode()


def publication(topic, data, retain=False):
    return packet(0x30 | retain, text(topic) + data)


def connect(port, name="stranger"):
    """A connection that has said who it is."""
    line = socket.create_connection(("127.0.0.1", port), timeout=20)
    line.sendall(packet(0x10, text("MQTT") + bytes([4, 2, 0, 60]) + text(name)))
    assert line.recv(4) == bytes([0x20, 2, 0, 0])
    return line


def say(port, topic, data, retain=False):
    """One message."""
    with connect(port) as line:
        line.sendall(publication(topic, data, retain))
        line.sendall(packet(0xE0, b""))
        line.recv(1)  # until the broker has read it and hung up
