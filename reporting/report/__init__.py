"""The report: everything that records say, as one HTML file that needs nothing else."""

from reporting.report.material import Material, Paper, Table
from reporting.report.page import Report, write_report

__all__ = ["Material", "Paper", "Report", "Table", "write_report"]
