"""The report of a run: one self-contained HTML file."""

from apod.report.classifier_page import ClassifierReport, of
from apod.report.points import AskedPoint, Map, Pictures, Plane, Surface
from apod.report.run_page import render_report

__all__ = ["AskedPoint", "ClassifierReport", "Map", "Pictures", "Plane", "Surface", "of", "render_report"]
