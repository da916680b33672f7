"""Columns of the Criteo click logs: tab-separated text without a header.

A record has a label, 13 integers and 26 hashed categories. An empty field is a missing value, which becomes 0. The
logs are https://www.kaggle.com/c/criteo-display-ad-challenge and Criteo's terabyte of click logs.
"""
from ascpipe.data import formats
from ascpipe.data.columns import HEX, INT32, INT64, Column

FORMAT = formats.text("\t", use_quote_delim=False)

COLUMNS = (
    Column("label", INT32),
    *(Column("I{}".format(number), INT64, 0) for number in range(1, 14)),
    *(Column("C{}".format(number), HEX, 0) for number in range(1, 27)),
)
