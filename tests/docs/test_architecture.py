"""The picture is that of the imports, and who stands on the way of an image is there."""

import ast
import importlib.util
import re

from common.codehash import ROOT

SCRIPT = ROOT / "docs" / "architecture.py"


def _drawing():
    spec = importlib.util.spec_from_file_location("architecture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _defined(file) -> set[str]:
    tree = ast.parse(file.read_text())
    top = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    methods = {f"{c.name}.{f.name}" for c in top for f in c.body if isinstance(f, ast.FunctionDef)}
    return {node.name for node in top} | methods


def test_the_picture_is_drawn_from_the_imports():
    drawing = _drawing()
    assert drawing.page() == drawing.PAGE.read_text(), "python docs/architecture.py draws it anew"


def test_every_package_is_in_it_and_no_arrow_is_made_up():
    drawing = _drawing()
    packages = {file.parent.name for file in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    assert drawing.ABOUT.keys() == packages - {"snakemake_logger_plugin_diptych"}
    arrows = set(re.findall(r"(\w+) --> (\w+)", drawing.picture()))
    assert arrows <= set(drawing.imports().edges)
    assert ("federation", "common") in arrows
    assert not any(importer == "federation" and other != "common" for importer, other in arrows)


def test_functions_on_the_way_of_an_image_are_where_the_page_says():
    rows = re.findall(r"^\| [^|]+ \| `([\w.]+)`[^|]* \| `([\w/.]+)` \|$", _drawing().PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 8
    for name, place in rows:
        files = sorted((ROOT / place).rglob("*.py")) if place.endswith("/") else [ROOT / place]
        assert any(name in _defined(file) for file in files), (name, place)
