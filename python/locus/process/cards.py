"""The cards that can be simulated. Made by tools/make_cards.py from locus/sim/cards.def: edit that."""

from __future__ import annotations

from typing import NamedTuple


class Card(NamedTuple):
    """A card by its key."""

    name: str
    memory: int
    capability: tuple[int, int]
    measured: bool
    """Whether what libraries take was measured on this card, or follows from rules alone."""


DEFAULT_CARD = "default"

CARDS = {
    "default": Card("Locus simulated GPU", 85899345920, (9, 0), False),
    "h200": Card("NVIDIA H200", 150109880320, (9, 0), True),
    "h100": Card("NVIDIA H100 80GB HBM3", 85029158912, (9, 0), False),
    "b200": Card("NVIDIA B200", 191503024128, (10, 0), False),
    "a100-80": Card("NVIDIA A100-SXM4-80GB", 84987740160, (8, 0), False),
    "a100-40": Card("NVIDIA A100-SXM4-40GB", 42298834944, (8, 0), False),
    "l40s": Card("NVIDIA L40S", 47697362944, (8, 9), False),
    "l4": Card("NVIDIA L4", 23659151360, (8, 9), False),
    "t4": Card("Tesla T4", 15655829504, (7, 5), False),
    "v100": Card("Tesla V100-SXM2-32GB", 34079899648, (7, 0), False),
    "rtx4090": Card("NVIDIA GeForce RTX 4090", 25386352640, (8, 9), False),
    "rtx3090": Card("NVIDIA GeForce RTX 3090", 25438126080, (8, 6), False),
}
