"""``python -m zephon``: the command, where its script is not on PATH."""

import sys

from zephon.cli import main

sys.exit(main())
