"""The protocol on real machines: MQTT, the broker, keys, and the loops of both ends."""
