"""Makes `snakemake --logger diptych` show what `diptych.terminal` shows. Snakemake prescribes the package's name."""

from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase


class LogHandler(LogHandlerBase):
    """Hands what Snakemake reports to a screen: the plan of a dry run, or the works as they go on."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Choose the screen. Imported here, since Snakemake imports its plugins whether or not they are asked for."""
        from rich.console import Console
        from snakemake.settings.enums import Quietness

        from diptych.terminal import Plan, Works

        console = Console(stderr=True, no_color=self.common_settings.nocolor or None, highlight=False)
        self.screen = Plan(console) if self.common_settings.dryrun else Works(console)
        if self.common_settings.dryrun:  # Snakemake itself need not say a word of each job
            self.common_settings.quiet = {Quietness.RULES, Quietness.PROGRESS}  # type: ignore[assignment]

    def emit(self, record: LogRecord) -> None:
        """Show a record, if it is of interest."""
        try:
            self.screen.show(record)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Leave the terminal as it was found."""
        self.screen.close()
        super().close()
