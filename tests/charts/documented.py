"""Checks that the table of the chart's README has every value, with its default, and no other; and that alerts use metrics there are.

python documented.py CHART README
"""

import json
import re
import sys
from pathlib import Path

import yaml


def leaves(values, path=""):
    for key, value in values.items():
        if isinstance(value, dict) and value and key != "resources":
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def main(chart, readme):
    values = dict(leaves(yaml.safe_load((chart / "values.yaml").read_text())))
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| .*\|$", (chart / "README.md").read_text(), re.M)
    table = {key: json.loads(default) for key, default in rows}
    assert table == values, f"values and table differ: {sorted(k for k in table | values if table.get(k) != values.get(k))}"
    metrics = set(re.findall(r"^\| `(ksqldb_sidecar_\w+)` \|", readme.read_text(), re.M))
    used = set(re.findall(r"ksqldb_sidecar_\w+", (chart / "alerts.yaml").read_text()))
    assert used and used <= metrics, f"no such metrics: {sorted(used - metrics)}"


main(Path(sys.argv[1]), Path(sys.argv[2]))
