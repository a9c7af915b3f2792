#!/usr/bin/env python3
"""Draws the figures of docs/architecture.md into docs/images. Standard library only.

    scripts/draw_figures.py            writes the pictures
    scripts/draw_figures.py --check    fails if a committed picture is not what this program draws

Each figure has its own light background, so that it can be read on light and dark pages.
"""

import sys
from pathlib import Path
from xml.sax.saxutils import escape

IMAGES = Path(__file__).parent.parent / "docs" / "images"
INK, LINE, PAPER = "#1c2733", "#5b6b7b", "#fbfcfd"
PLAIN, FULL, PIECEWISE, EAGER, DISPATCH = "#eef2f6", "#d6e6ff", "#dcf3df", "#fdeccf", "#f3dff5"


class Figure:
    def __init__(self, name, title, width, height):
        self.name, self.width, self.height = name, width, height
        self.title = title
        self.parts = []

    def text(self, x, y, words, size=13, weight="normal", anchor="middle", fill=INK):
        self.parts.append(f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
                          f'fill="{fill}">{escape(words)}</text>')

    def box(self, x, y, width, height, lines, fill=PLAIN, dashed=False, top=False):
        """A box with its lines in the middle, or at its top if it holds other boxes. The first line is bold."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{fill}" stroke="{LINE}"{dash}/>')
        first = y + 19 if top else y + height / 2 - 8.5 * (len(lines) - 1) + 4.5
        for i, line in enumerate(lines):
            self.text(x + width / 2, round(first + 17 * i, 1), line, 13 if i == 0 else 12, "600" if i == 0 else "normal")

    def diamond(self, x, y, width, height, lines, fill=DISPATCH):
        points = f"{x},{y + height / 2} {x + width / 2},{y} {x + width},{y + height / 2} {x + width / 2},{y + height}"
        self.parts.append(f'<polygon points="{points}" fill="{fill}" stroke="{LINE}"/>')
        for i, line in enumerate(lines):
            self.text(x + width / 2, round(y + height / 2 + 4.5 - 8 * (len(lines) - 1) + 16 * i, 1), line, 12)

    def arrow(self, *points, label="", at=None, anchor="start"):
        path = " ".join(f"{x},{y}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="1.5" marker-end="url(#tip)"/>')
        if label:
            x, y = at or (points[0][0] + 6, points[0][1] + 15)
            self.text(x, y, label, 12, anchor=anchor)

    def svg(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
                f'height="{self.height}" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" role="img">\n'
                f"<title>{escape(self.title)}</title>\n"
                '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
                f'<path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker></defs>\n'
                f'<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="10" fill="{PAPER}" stroke="#c7d0d9"/>\n')
        return head + "\n".join(self.parts) + "\n</svg>\n"


def previous_design():
    figure = Figure("previous-design.svg", "The previous design: graphs inside the compiler's backend, found by batch size", 760, 290)
    figure.box(20, 105, 130, 80, ["model runner", "pads the batch"])
    figure.arrow((150, 145), (190, 145))
    figure.box(190, 20, 550, 250, ["compiled model"], top=True)
    for i, (x, number) in enumerate(((205, 1), (550, 2))):
        figure.box(x, 55, 175, 195, [f"piecewise backend {number}"], PIECEWISE, top=True)
        figure.box(x + 15, 90, 145, 46, ["compiled piece"])
        figure.box(x + 15, 150, 145, 84, ["graphs", "found by batch size,", "captured here"], FULL)
    figure.arrow((380, 150), (405, 150))
    figure.box(405, 118, 115, 64, ["attention", "eager"], EAGER, dashed=True)
    figure.arrow((520, 150), (550, 150))
    return figure


def current_design():
    figure = Figure("current-design.svg", "The current design: a dispatcher decides, wrappers replay, the compiler knows no graphs", 760, 400)
    figure.box(20, 150, 150, 80, ["model runner", "pads and stages", "the batch"])
    figure.box(20, 20, 150, 90, ["dispatcher", "FULL keys", "PIECEWISE keys"], DISPATCH)
    figure.arrow((60, 150), (60, 110), label="facts", at=(54, 136), anchor="end")
    figure.arrow((130, 110), (130, 150), label="mode, key", at=(138, 136))
    figure.arrow((170, 190), (215, 190))
    figure.box(215, 20, 525, 360, ["FULL wrapper around the whole forward: one graph per key"], FULL, top=True)
    figure.box(232, 55, 491, 268, ["compiled model: pieces that know nothing of graphs"], top=True)
    for x, number in ((242, 1), (540, 2)):
        figure.box(x, 90, 173, 170, [f"PIECEWISE wrapper {number}", "one graph per key"], PIECEWISE, top=True)
        figure.box(x + 23, 145, 127, 90, [f"piece {number}", "compiled"])
    figure.arrow((415, 178), (433, 178))
    figure.box(433, 145, 89, 66, ["attention", "eager"], EAGER, dashed=True)
    figure.arrow((522, 178), (540, 178))
    figure.text(477, 298, "The forward context brings mode and key to every wrapper.", 12)
    figure.text(477, 355, "A wrapper of another mode only calls what it wraps.", 12)
    return figure


def executor():
    figure = Figure("executor.svg", "One step in the model runner", 760, 470)
    steps = [("scheduled batch", "requests, tokens, cache blocks", PLAIN),
             ("dispatch", "the best key that was captured", DISPATCH),
             ("stage", "into persistent buffers; padding is inert", PLAIN),
             ("plan attention", "the path of this step", PLAIN)]
    for i, (name, what, fill) in enumerate(steps):
        figure.box(230, 20 + 72 * i, 300, 52, [name, what], fill)
        if i:
            figure.arrow((380, 20 + 72 * i - 20), (380, 20 + 72 * i))
    figure.arrow((300, 288), (300, 302), (135, 302), (135, 330), label="FULL", at=(145, 320))
    figure.arrow((380, 288), (380, 330), label="PIECEWISE", at=(388, 320))
    figure.arrow((460, 288), (460, 302), (625, 302), (625, 330), label="NONE", at=(615, 320), anchor="end")
    figure.box(30, 330, 210, 56, ["replay one graph", "1 launch"], FULL)
    figure.box(275, 330, 210, 56, ["replay pieces", "attention between them"], PIECEWISE)
    figure.box(520, 330, 210, 56, ["run the ops", "one launch each"], EAGER)
    for x in (135, 380, 625):
        figure.arrow((x, 386), (x, 402), (380, 402), (380, 414)) if x != 380 else figure.arrow((380, 386), (380, 414))
    figure.box(230, 414, 300, 40, ["logits of the rows that need them"])
    return figure


def wrapper_flow():
    figure = Figure("wrapper-flow.svg", "What a wrapper does in a call", 760, 470)
    figure.box(40, 20, 250, 48, ["call of a wrapper", "with the forward context"])
    figure.arrow((165, 68), (165, 92))
    figure.diamond(40, 92, 250, 84, ["is the mode of the step", "the wrapper's mode?"])
    figure.arrow((290, 134), (470, 134), label="no, or NONE", at=(300, 126))
    figure.box(470, 108, 250, 52, ["call what is wrapped", "it may hold other wrappers"], EAGER)
    figure.arrow((165, 176), (165, 200), label="yes", at=(173, 192))
    figure.diamond(40, 200, 250, 84, ["is there a graph", "for the key?"])
    figure.arrow((290, 242), (470, 242), label="no", at=(300, 234))
    figure.diamond(470, 200, 250, 84, ["may this wrapper", "capture now?"])
    figure.arrow((530, 264), (530, 376), label="yes", at=(522, 320), anchor="end")
    figure.arrow((660, 264), (660, 376), label="no: sealed", at=(652, 352), anchor="end")
    figure.box(430, 376, 155, 70, ["capture", "keep graph, outputs,", "addresses"], PIECEWISE)
    figure.box(600, 376, 140, 70, ["error", "the dispatcher never", "chooses such a key"], "#fbdada")
    figure.arrow((165, 284), (165, 308), label="yes", at=(173, 300))
    figure.diamond(40, 308, 250, 84, ["are all addresses where", "the capture saw them?"])
    figure.arrow((290, 350), (330, 350), (330, 376), label="no", at=(300, 342))
    figure.box(265, 376, 150, 70, ["refuse", "the key is retired,", "the step runs eagerly"], "#fbdada")
    figure.arrow((165, 392), (165, 408), label="yes", at=(173, 405))
    figure.box(65, 408, 190, 44, ["replay the graph"], FULL)
    return figure


def dispatch():
    figure = Figure("dispatch.svg", "How the dispatcher chooses", 760, 440)
    figure.box(20, 20, 330, 62, ["facts of the batch", "tokens, requests, uniform?, adapters, cascade?"])
    figure.arrow((185, 82), (185, 106))
    figure.diamond(40, 106, 290, 84, ["mode NONE, forced eager, or", "adapters that no graph has?"])
    figure.arrow((330, 148), (500, 148), label="yes", at=(340, 140))
    figure.arrow((185, 190), (185, 214), label="no", at=(193, 206))
    figure.diamond(40, 214, 290, 84, ["is a FULL key captured for it?", "(never for cascade)"])
    figure.arrow((330, 256), (500, 256), label="yes", at=(340, 248))
    figure.arrow((185, 298), (185, 322), label="no", at=(193, 314))
    figure.diamond(40, 322, 290, 84, ["is a PIECEWISE key", "captured for its tokens?"])
    figure.arrow((330, 364), (500, 364), label="yes", at=(340, 356))
    figure.arrow((185, 406), (185, 420), (440, 420), (440, 166), (500, 166), label="no", at=(193, 416))
    figure.box(500, 122, 240, 54, ["NONE", "the exact batch, without padding"], EAGER)
    figure.box(500, 229, 240, 54, ["FULL", "padded to (tokens, requests, uniform)"], FULL)
    figure.box(500, 337, 240, 54, ["PIECEWISE", "padded to tokens; any requests"], PIECEWISE)
    figure.text(620, 62, "Every decision carries its reason.", 12)
    return figure


FIGURES = (previous_design, current_design, executor, wrapper_flow, dispatch)


def main():
    stale = []
    for draw in FIGURES:
        figure = draw()
        path = IMAGES / figure.name
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text() != figure.svg():
                stale.append(str(path))
        else:
            path.write_text(figure.svg())
    if stale:
        sys.exit("not as scripts/draw_figures.py draws them: " + ", ".join(stale))


if __name__ == "__main__":
    main()
