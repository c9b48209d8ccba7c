"""``python -m zephon.cli`` is the command ``zephon``."""

import sys

from zephon.cli import main

sys.exit(main())
