"""Both ends of the wire as frames and records; no transport, no clock: what a device needs."""
