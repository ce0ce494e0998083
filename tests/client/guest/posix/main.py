# SPDX-License-Identifier: LGPL-3.0-or-later
"""main.py VERSION FOLDER check|verify: the status tells whether all is well."""
import sys

import acls
import attrs
import data
import kept
import names
import tools
from harness import guarded, report, run_checks

folder, what = sys.argv[2:]
if what == "check":
    run_checks(folder)
    guarded(kept.keep, f"{folder}/kept")
else:
    guarded(kept.verify, f"{folder}/kept")
sys.exit(report())
