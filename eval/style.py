"""How every figure looks: colours that survive colour blindness and grey print, one font size scale, stable files."""

from __future__ import annotations

from typing import Any

from matplotlib import style
from matplotlib.colors import to_hex, to_rgb
from matplotlib.typing import RcKeyType

INK = "#222222"
MUTED = "#666666"
FAINT = "#e4e4e4"
COLORS: tuple[str, ...] = tuple(style.library["petroff6"]["axes.prop_cycle"].by_key()["color"])
MARKERS = ("o", "s", "D", "^", "v", "P")
LINES = ("-", (0, (6, 2)), (0, (6, 2, 1, 2)), (0, (1, 1)), (0, (4, 1)), (0, (3, 1, 1, 1)))
DPI = 150
TITLE_SIZE, TEXT_SIZE, SMALL_SIZE = 11.0, 9.0, 7.5

RC: dict[RcKeyType, Any] = {
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": TEXT_SIZE,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 72,  # layout and labels are computed in points
    "figure.facecolor": "white",
    "font.size": TEXT_SIZE,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "savefig.dpi": DPI,
    "svg.fonttype": "none",
    "svg.hashsalt": "reasoning-harness",
    "text.color": INK,
    "text.parse_math": False,  # a dollar in a model name is a dollar
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": TEXT_SIZE,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": TEXT_SIZE,
}


def for_text(color: str) -> str:
    """A darker shade of a line's colour, legible as small text on white."""
    red, green, blue = to_rgb(color)
    return to_hex((0.65 * red, 0.65 * green, 0.65 * blue))
