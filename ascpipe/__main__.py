"""``python -m ascpipe`` is the command line."""
from ascpipe.cli.main import main

if __name__ == "__main__":
    main()
