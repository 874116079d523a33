"""What is measured runs the cores that this process runs: a build is not made or lost in the middle of a comparison."""

import os

from barnabas.cores import VARIABLE, running

os.environ[VARIABLE] = running()
