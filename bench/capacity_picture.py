"""How a day of 100 million messages goes, and how an index grows, as a picture. Needs matplotlib.

`python capacity_picture.py PANELS.json PICTURE.png`: a panel is lines of labelled points.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import StrMethodFormatter

COLOURS = ("#c2410c", "#ea9a5b", "#1d4ed8", "#60a5fa", "#15803d")
GREY = "#64748b"
PANEL_INCHES = 3.1


def draw(panels: list[dict[str, Any]], path: Path) -> None:
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(9, PANEL_INCHES * len(panels)), squeeze=False, layout="constrained"
    )
    for panel, axis in zip(panels, axes[:, 0], strict=True):
        for line, colour in zip(panel["lines"], COLOURS, strict=False):
            axis.plot(
                line["x"], line["y"], label=line["label"], color=GREY if line["dashed"] else colour,
                linestyle="--" if line["dashed"] else "-", linewidth=1.8,
            )  # fmt: skip
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        if "xTicks" in panel:
            axis.set_xticks(panel["xTicks"])
        axis.set_title(panel["title"], loc="left", fontsize=10)
        axis.set_xlabel(panel["xLabel"], fontsize=8)
        axis.set_ylabel(panel["yLabel"], fontsize=8)
        axis.set_xlim(panel["lines"][0]["x"][0], panel["lines"][0]["x"][-1])
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(
            fontsize=8, frameon=False, loc=panel["legend"], bbox_to_anchor=panel["legendAt"]
        )
    figure.savefig(path, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
