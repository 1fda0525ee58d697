"""Programs whose reports differ between real and simulated devices, each with the reason."""

KNOWN_DIFFERENCES: dict[str, str] = {}
