"""`python -m argosy`: the command line, for where the script isn't on the path."""

import sys

from argosy.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
