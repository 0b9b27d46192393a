"""Asks a data set every question of this folder in DuckDB and in Spark, and holds the answers against each
other: counts and texts must be the same, other numbers to 1e-9. With `--report FILE`, which is the output of
`iopj fleet report DATASET --json`, also against what that says."""

import argparse
import json
import math
import os
import sys
import time
from decimal import Decimal
from pathlib import Path

import duckdb

QUERIES = Path(__file__).resolve().parent
TABLES = ["stores", "trials", "histograms", "latencies", "series", "power", "evidence", "energy", "costs"]
TOLERANCE = 1e-9
#: The report counts months from the first store, SQL from 1970.
REPORTED = 1e-6


def questions():
    """The names of all questions."""
    return sorted(path.stem for path in QUERIES.glob("*.sql"))


def text(question):
    """A question in SQL."""
    return (QUERIES / f"{question}.sql").read_text()


class DuckDb:
    """The tables in DuckDB, as views of their files."""

    name = "duckdb"

    def __init__(self, dataset):
        self.connection = duckdb.connect()
        for table in TABLES:
            files = str(dataset / table / "*" / "*" / "*" / "*.parquet").replace("'", "''")
            self.connection.execute(
                f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}', "
                "hive_partitioning = true, hive_types_autocast = false)"
            )

    def ask(self, question):
        """The rows of the answer."""
        return [tuple(row) for row in self.connection.execute(text(question)).fetchall()]


class Spark:
    """The tables in Spark, as views of their folders."""

    name = "spark"

    def __init__(self, dataset):
        from pyspark.sql import SparkSession

        # Before it reads its settings, it looks up this host's name, which not every machine knows.
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
            "spark.log.level": "ERROR",
        }
        builder = SparkSession.builder.master("local[2]").appName("iopj")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        for table in TABLES:
            self.session.read.parquet(str(dataset / table)).createOrReplaceTempView(table)

    def ask(self, question):
        """The rows of the answer."""
        return [tuple(row) for row in self.session.sql(text(question)).collect()]


def is_same(a, b, tolerance):
    """Counts and texts exactly, other numbers nearly."""
    exact = (int, str, bool, type(None))
    a, b = (int(x) if isinstance(x, Decimal) and x == int(x) else x for x in (a, b))
    if isinstance(a, exact) and isinstance(b, exact):
        return a == b
    return math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=tolerance / 1000)


def difference(a, b, tolerance=TOLERANCE):
    """Where two answers differ; nothing if they are the same."""
    if len(a) != len(b):
        return f"{len(a)} rows against {len(b)}"
    # Engines sort texts alike only by their bytes: the order of rows is no part of an answer.
    def key(row):
        return [x for x in row if isinstance(x, str)]

    for left, right in zip(sorted(a, key=key), sorted(b, key=key), strict=True):
        same = (is_same(x, y, tolerance) for x, y in zip(left, right, strict=False))
        if len(left) != len(right) or not all(same):
            return f"{left} against {right}"
    return None


def of_report(report):
    """What the report says of questions that it answers, too: by question and row, the texts first."""
    answers = {"winners": [], "outliers": [], "drift": [], "savings": []}
    for kind in report["kinds"]:
        own = (kind["machine"], kind["drive"], kind["kernel"])
        if drift := kind["drift"]:
            answers["drift"].append((*own, drift["hosts"], drift["per_month"]))
        for one in kind["outliers"]:
            answers["outliers"].append((*own, one["host"], one["of_kind"], one["deviations"]))
        for one in kind["workloads"]:
            figures = {path["path"]: path["iops"] for path in one["paths"]}
            if one["best"]:
                mean = figures[one["best"][0]]["mean"]
                answers["winners"].append((*own, one["setup"], one["best"][0], mean))
            advice = one["advice"]
            if advice and advice["by"] == "joules":
                saved = [(advice[of] or {"share": 0.0})["share"] for of in ("joules", "latency", "cpu")]
                answers["savings"].append((*own, one["setup"], advice["path"], advice["hosts"], *saved))
    return answers


def as_reported(question, rows):
    """The columns of an answer that the report has, too."""
    columns = {
        "winners": [0, 1, 2, 3, 4, 6],
        "outliers": [0, 1, 2, 3, 5, 6],
        "drift": [0, 1, 2, 3, 4],
        "savings": [0, 1, 2, 3, 4, 5, 6, 7, 8],
    }[question]
    return [tuple(row[at] for at in columns) for row in rows]


def main():
    """Asks, compares, and says what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--times", action="store_true", help="print how long each answer took")
    parser.add_argument("--duckdb", action="store_true", help="ask DuckDB alone")
    parser.add_argument("--report", type=Path, help="the output of `iopj fleet report DATASET --json`")
    options = parser.parse_args()
    reported = of_report(json.loads(options.report.read_text())) if options.report else {}
    engines = [DuckDb(options.dataset)] + ([] if options.duckdb else [Spark(options.dataset)])
    failed = 0
    for question in questions():
        answers, seconds = [], []
        for engine in engines:
            began = time.monotonic()
            answers.append(engine.ask(question))
            seconds.append(f"{engine.name} {time.monotonic() - began:.2f} s")
        found = "no rows" if not answers[0] else None
        found = found or (difference(*answers) if len(answers) == 2 else None)
        if found is None and question in reported:
            unlike = difference(as_reported(question, answers[0]), reported[question], REPORTED)
            found = f"the report differs: {unlike}" if unlike else None
        failed += found is not None
        took = f" ({', '.join(seconds)})" if options.times else ""
        print(f"{question}: {found or f'{len(answers[0])} rows, the same'}{took}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
