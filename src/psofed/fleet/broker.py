"""The embedded broker: amqtt in a thread of this process, so that one command is enough.

It is for this machine and for trials. It knows no certificates: every user of this machine can
send anything to anybody.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

from psofed.errors import InputError
from psofed.extras import need
from psofed.fleet.address import LOOPBACK, Address

ANYBODY = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
CONNECTIONS = 2_000


class Broker:
    """A broker at an address of this machine."""

    def __init__(self, address: Address) -> None:
        if address.host not in LOOPBACK:
            right = "install mosquitto there and give it as --broker (docs/deploy.md)"
            found = f"is {address.host}, but the embedded broker is for this machine only"
            raise InputError("--listen", found, right)
        self.address = address

    def open(self) -> None:
        """Listen; an InputError if the port is taken or the broker is not installed."""
        need("amqtt", "deploy", "brokers of our own", ", or give a --broker")
        from amqtt.errors import AMQTTError, BrokerError

        for name in ("amqtt", "transitions"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="broker")
        self._thread.start()
        bind = f"{self.address.host}:{self.address.port}"
        listener = {"type": "tcp", "bind": bind, "max_connections": CONNECTIONS}
        config = {"listeners": {"default": listener}, "plugins": ANYBODY}
        try:
            self._broker = self._call(_start(config))
        except (AMQTTError, BrokerError, OSError) as error:
            self._stop_loop()
            found = f"cannot be used for listening: {error.__cause__ or error}"
            right = "if a broker is there, give it as --broker; or give another --listen"
            raise InputError(str(self.address), found, right) from None

    def close(self) -> None:
        """Stop listening."""
        self._call(self._broker.shutdown())
        self._stop_loop()

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=20)

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()


async def _start(config: dict[str, Any]) -> Any:
    from amqtt.broker import Broker as Amqtt

    broker = Amqtt(config)
    await broker.start()
    return broker
