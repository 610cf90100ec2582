"""The committed tables compile, all in one document, where there is a LaTeX."""

import shutil
import subprocess

import pytest

from common.codehash import ROOT
from reporting.tables import LATEX_PACKAGES

TABLES = sorted((ROOT / "results" / "reference").glob("*/tables/*.tex"))


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex here (CONTRIBUTING.md)")
def test_the_committed_tables_compile(tmp_path):
    assert TABLES
    page = r"\usepackage[a3paper, landscape, margin=1cm]{geometry}"
    tables = "\n".join(rf"\input{{{table}}}\clearpage" for table in TABLES)
    body = f"{LATEX_PACKAGES}\n{page}\n\\begin{{document}}\\tiny\n{tables}\n\\end{{document}}\n"
    (tmp_path / "tables.tex").write_text(f"\\documentclass{{article}}\n{body}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "tables.pdf").stat().st_size
