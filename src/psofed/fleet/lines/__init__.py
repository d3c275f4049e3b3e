"""Lines to microcontrollers: small frames, and the gateway that makes their devices members."""
