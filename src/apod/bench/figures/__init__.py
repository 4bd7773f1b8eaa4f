"""The paper's figures and a summary, from the results of a bench."""

from apod.bench.figures.draw import draw_figures

__all__ = ["draw_figures"]
