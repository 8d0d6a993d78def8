"""Six questions to the tables that `nats-dissect spark` wrote: python spark_questions.py DIR

    nats-dissect spark CAPTURE... --out DIR --tables frames,sessions,subscriptions,requests,flows

Each is a text of Spark SQL in spark_questions/, to be copied into a notebook. Exit status: 0 nothing that
a job should stop on; 1 readable credentials, or sessions that ended in error; 2 it could not be done.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

TABLES = ("frames", "sessions", "subscriptions", "requests", "flows")
JAVA = "Spark needs Java 17 or later: apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
QUESTIONS = {  # file: title, and whether a job should stop on an answer
    "talkers": ("Top talkers", False),
    "plaintext": ("Plaintext credentials", True),
    "unanswered": ("Requests that got no answer", False),
    "slow": ("Slow responders", False),
    "unheard": ("Subjects nobody subscribed to, as far as can be seen", False),
    "failed": ("Sessions that ended in error", True),
}


def refuse(text: str) -> NoReturn:
    print(f"spark_questions: {text}", file=sys.stderr)
    sys.exit(2)


usage = "usage: spark_questions.py DIR, which `nats-dissect spark CAPTURE... --out DIR` wrote"
if sys.argv[1:] in (["-h"], ["--help"]):
    print(f"spark_questions: {usage}")
    sys.exit()
if len(sys.argv) != 2:
    refuse(usage)
try:
    from pyspark.errors import AnalysisException, PySparkRuntimeError
    from pyspark.sql import SparkSession, functions

    from dissect.nats.spark.types import spark_schema
except ImportError as error:
    refuse(f"{error}: pip install '.[spark]'")
home = os.environ.get("JAVA_HOME")
if not shutil.which("java", path=f"{home}/bin" if home else None):
    refuse(JAVA)
try:
    spark = SparkSession.builder.appName("spark_questions").getOrCreate()
except PySparkRuntimeError:  # of which Java has said more
    refuse(JAVA)
spark.sparkContext.setLogLevel("ERROR")
for table in TABLES:
    try:  # the schema, because a table may be empty
        rows = spark.read.schema(spark_schema(table)).parquet(f"{sys.argv[1]}/{table}")
    except AnalysisException:
        command = f"nats-dissect spark CAPTURE... --out {sys.argv[1]} --tables {','.join(TABLES)}"
        refuse(f"no {table} in {sys.argv[1]}: {command}")
    rows.createOrReplaceTempView(table)

found = False
try:
    for name, (title, stops) in QUESTIONS.items():
        text = Path(__file__).with_suffix("").joinpath(f"{name}.sql").read_text("utf-8")
        answer = spark.sql(text)
        harmless = {  # to a terminal: anybody can call himself "\x1b[2J"
            column: functions.regexp_replace(column, r"\p{C}", "?")
            for column, type_ in answer.dtypes
            if type_ == "string"
        }
        print(title)
        answer.withColumns(harmless).show(truncate=60)
        found |= stops and not answer.isEmpty()
    sys.stdout.flush()
except BrokenPipeError:  # the reader has gone, as `head` does; Python flushes again at exit
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())
    found = False
sys.exit(int(found))
