"""Campaigns: durable ask and tell over SQLite or PostgreSQL.

A campaign decides whom to ask about, assigns each question to one person, keeps every answer, and refits beside it.
`Campaign` is the core, `campaign.annotator(name)` and `campaign.owner` have the rest; `docs/campaign.md` tells the life
of an answer.
"""

from apod.campaign.annotator import DEFAULT_ANNOTATOR, Annotator
from apod.campaign.answering import ImportReport, Receipt
from apod.campaign.asking import Question, Turn
from apod.campaign.campaign import Campaign
from apod.campaign.engine import Engine, EngineFactory, GroupAnswer, Model, ModelState
from apod.campaign.erasure import Erasure
from apod.campaign.label_studio import labelling_config
from apod.campaign.log import LogCheck
from apod.campaign.materials import Materials
from apod.campaign.owner import Owner
from apod.campaign.schema import upgrade
from apod.campaign.settings import KINDS, CampaignSettings
from apod.campaign.state import CANNOT_TELL, DECLINED, Proposal
from apod.campaign.status import AnnotatorReport, CampaignInfo, Status, campaigns
from apod.campaign.store import Store
from apod.campaign.transfer import ExportReport

__all__ = [
    "CANNOT_TELL",
    "DECLINED",
    "DEFAULT_ANNOTATOR",
    "KINDS",
    "Annotator",
    "AnnotatorReport",
    "Campaign",
    "CampaignInfo",
    "CampaignSettings",
    "Engine",
    "EngineFactory",
    "Erasure",
    "ExportReport",
    "GroupAnswer",
    "ImportReport",
    "LogCheck",
    "Materials",
    "Model",
    "ModelState",
    "Owner",
    "Proposal",
    "Question",
    "Receipt",
    "Status",
    "Store",
    "Turn",
    "campaigns",
    "labelling_config",
    "upgrade",
]
