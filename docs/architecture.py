"""Draws the picture of docs/architecture.md from the imports: `python docs/architecture.py`."""

import ast
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
ABOUT = {
    "diptych": "the command line, and what ties the rest together",
    "reporting": "records in, tables, figures, claims and the report out",
    "evaluation": "a run's folder in, records out",
    "abilities": "what a trained algorithm can do, as arrays",
    "methods": "the five papers' algorithms",
    "baselines": "what they are compared with",
    "attacks": "who listens on the channel",
    "objectives": "what a client minimises on a batch",
    "federation": "the engine: rounds, local work, the channel",
    "partitions": "images, dealt out to clients",
    "networks": "architectures",
    "common": "specifications, files, records, errors",
}
"""The packages from top to bottom, in words."""
START, END = "```mermaid\n", "```\n"


def imports() -> nx.DiGraph:
    """An edge from each package to those that its files import."""
    graph = nx.DiGraph()
    graph.add_nodes_from(ABOUT)
    for package in ABOUT:
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                used = {name.partition(".")[0] for name in named} & ABOUT.keys() - {package}
                graph.add_edges_from((package, other) for other in used)
    return graph


def picture() -> str:
    """The imports in Mermaid's words, without those that others imply; algorithms are found by their files' names.

    Raises:
        networkx.NetworkXError: imports run in a circle.
    """
    reduced = nx.transitive_reduction(imports())
    lines = [f'    {name}["<b>{name}</b><br/>{about}"]' for name, about in ABOUT.items()]
    lines += [f"    {a} --> {b}" for a in ABOUT for b in ABOUT if reduced.has_edge(a, b)]
    lines += [f"    diptych -. by name .-> {package}" for package in ("methods", "baselines")]
    return "\n".join(["flowchart TD", *lines, ""])


def page() -> str:
    """The page with the picture as it is today."""
    before, _, rest = PAGE.read_text().partition(START)
    return before + START + picture() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
