"""What radio links allow: bytes in a message, and messages a day. Each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from psofed.errors import InputError, nearest

DAY = 86400.0
LORAWAN = (
    "LoRa Alliance, LoRaWAN Regional Parameters 1.0.3, EU863-870, largest N with a repeater;"
    " ETSI EN 300 220: 1 % duty cycle; time on air as in Semtech AN1200.13"
)
OVERHEAD = 13  # bytes of LoRaWAN's own header, port and integrity code


@dataclass(frozen=True)
class Radio:
    """The limits of a link: bytes in one message, and messages a day and device (both ways)."""

    name: str
    payload: int
    per_day: float
    source: str


def airtime(size: int, spreading: int, bandwidth: float = 125e3, coding: int = 1) -> float:
    """Seconds on air of a LoRa frame of `size` bytes, Semtech AN1200.13, section 4.

    >>> round(airtime(51 + OVERHEAD, spreading=12), 2)
    2.79
    """
    symbol = 2**spreading / bandwidth
    slow = spreading >= 11  # low data rate optimisation
    bits = 8 * size - 4 * spreading + 28 + 16
    symbols = 8 + max(ceil(bits / (4 * (spreading - 2 * slow))) * (coding + 4), 0)
    return (8 + 4.25 + symbols) * symbol


def _lorawan(rate: int, payload: int) -> Radio:
    # The uplink may be on air 1 % of the time; each uplink may be answered by one downlink.
    messages = 2 * 0.01 * DAY / airtime(payload + OVERHEAD, 12 - rate)
    return Radio(f"lorawan-dr{rate}", payload, float(int(messages)), LORAWAN)


LINKS = {
    link.name: link
    for link in (
        *(_lorawan(r, n) for r, n in enumerate((51, 51, 51, 115, 222, 222))),
        Radio("nb-iot", 1600, float("inf"),
             "3GPP TS 36.323, section 4.3.1: the largest PDCP SDU of NB-IoT"),
        Radio("ble", 244, float("inf"),
             "Bluetooth Core since 4.2: 251 bytes with data length extension, less 4 of L2CAP and"
             " 3 of ATT"),
        Radio("satellite", 270, float("inf"),
             "Iridium 9603 Developers Guide, Short Burst Data: 340 bytes up, 270 down"),
        Radio("ethernet", 1472, float("inf"),
             "IEEE 802.3: 1500 bytes of payload, less 20 of IPv4 and 8 of UDP"),
    )
}  # fmt: skip


def find(name: str) -> Radio:
    """The link of that name.

    >>> find("lorawan-dr0").payload
    51
    """
    if name not in LINKS:
        raise InputError("--link", f"is {name!r}", nearest(name, list(LINKS)))
    return LINKS[name]
