"""The types of a campaign's JSON say what is written."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

from apod.campaign.json_types import OperatingPointJson, StatusJson
from apod.campaign.operating_point import OperatingPoint
from apod.campaign.status import Status


def test_the_status_in_json_has_the_fields_of_the_status_in_its_order() -> None:
    assert list(get_type_hints(StatusJson)) == [field.name for field in fields(Status)]


def test_an_operating_point_in_json_has_every_field_of_its_type() -> None:
    point = OperatingPoint(0.5, "Chosen by the owner.", by_owner=True, audit=None)
    assert set(point.to_json()) == set(get_type_hints(OperatingPointJson))
