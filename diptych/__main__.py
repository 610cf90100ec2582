"""`python -m diptych` is `diptych`."""

import sys

from diptych.cli import main

sys.exit(main())
