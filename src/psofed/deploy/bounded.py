"""A client of the MQTT library that keeps no more of a packet than can be a frame of ours."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from psofed.extras import need

if TYPE_CHECKING:
    from psofed.deploy.mqtt import Link

TOPIC = 100  # bytes of an MQTT packet besides the frame, at most: its head and the topic


def bounded(link: Link, name: str) -> Any:
    """The library would read up to 256 MB before anybody can look at it.

    It also tells nobody with which alert a broker has refused us, and knows one certificate only.
    """
    mqtt = need("paho.mqtt.client", "deploy", "MQTT connections", " ('.[client]' on devices)")
    most = link.largest + TOPIC

    class Bounded(mqtt.Client):  # type: ignore[misc, name-defined]
        def _ssl_wrap_socket(self, tcp_sock: Any) -> Any:
            if link.papers is not None:
                link.papers.renewed()
                self._ssl_context = link.papers.context
            return super()._ssl_wrap_socket(tcp_sock)

        def _sock_recv(self, bufsize: int) -> Any:
            if self._in_packet["remaining_length"] > most:
                self._in_packet["packet"].clear()
            try:
                return super()._sock_recv(min(bufsize, 2**16))
            except ssl.SSLError as error:
                link.alert = error.reason or link.alert
                raise

        def _sock_send(self, buf: Any) -> Any:
            try:
                return super()._sock_send(buf)
            except BlockingIOError:
                raise
            except OSError:  # the broker has hung up; it may have said why
                with suppress(OSError):
                    self._sock_recv(1)
                raise

        def _packet_handle(self) -> Any:
            if self._in_packet["remaining_length"] <= most:
                return super()._packet_handle()
            link.oversized += 1
            unconfirmed = self._in_packet["command"] & 6  # QoS above 0: it would be sent again
            codes = mqtt.MQTTErrorCode
            return codes.MQTT_ERR_PROTOCOL if unconfirmed else codes.MQTT_ERR_SUCCESS

    return Bounded(mqtt.CallbackAPIVersion.VERSION2, client_id=name, manual_ack=True)
