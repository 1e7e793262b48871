"""The results as a picture: messages per second end to end, and latency. Needs matplotlib.

`python picture.py ROWS.json PICTURE.png`: rows are label, group, value, lowest, highest.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

COLOURS = {"Outrider": "#c2410c", "limit": "#94a3b8", "peer": "#1d4ed8"}
INCHES_A_ROW = 0.34


def draw(panels: list[dict[str, Any]], path: Path) -> None:
    heights = [max(len(panel["rows"]), 1) for panel in panels]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(9, INCHES_A_ROW * sum(heights) + 1.1 * len(panels)),
        gridspec_kw={"height_ratios": heights}, squeeze=False, layout="constrained",
    )  # fmt: skip
    for panel, axis in zip(panels, axes[:, 0], strict=True):
        rows = list(reversed(panel["rows"]))
        values = [row["value"] for row in rows]
        spread = [
            [row["value"] - row["lowest"] for row in rows],
            [row["highest"] - row["value"] for row in rows],
        ]
        axis.barh(
            [row["label"] for row in rows], values, xerr=spread,
            color=[COLOURS[row["group"]] for row in rows], ecolor="#334155", height=0.7,
        )  # fmt: skip
        for place, row in enumerate(rows):
            axis.text(row["highest"] * 1.08, place, f"{row['value']:,.{panel['places']}f}",
                      va="center", fontsize=8)  # fmt: skip
        axis.set_xscale("log")
        # Labels between the powers of ten would overlap.
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_title(panel["title"], loc="left", fontsize=10)
        axis.margins(x=0.12)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
