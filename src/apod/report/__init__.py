"""The report of a run: one self-contained HTML file."""

from apod.report.pictures import AskedPoint, Map, Pictures, Plane, Surface
from apod.report.render import render_report

__all__ = ["AskedPoint", "Map", "Pictures", "Plane", "Surface", "render_report"]
