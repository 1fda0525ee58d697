"""Programs whose reports differ between real and simulated devices, each with the reason."""

KNOWN_DIFFERENCES: dict[str, str] = {
    "read_too_early": "a copy that is under way on a real card is not followed",
    "early_logits": "a copy that is under way on a real card is not followed",
}
